"""What the Pump says of itself with each heartbeat, and who is told what the registry says."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.actor import Ref
from tidelog.messages import OFFLINE, ONLINE, PAUSED, PUMP, Heartbeat, NodeStatus
from tidelog.ports import Clock
from tidelog.timestamps import physical_ms
from tidelog_pump.config import PumpConfig
from tidelog_pump.identity import Identity
from tidelog_pump.late.verifier import ReadSuspects, Shown, VerifierMessage
from tidelog_pump.leave.leaving import Leaving
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments
from tidelog_pump.pull.puller import PullerMessage, ReadFeeds
from tidelog_pump.retention.gc_actor import GcMessage, ReadBehind
from tidelog_pump.sort.resolver import ReadWaiting, ResolverMessage, Waiting
from tidelog_pump.sort.sorter_actor import Resolved
from tidelog_pump.stranded.keeper import KeeperMessage, ToldOffline
from tidelog_pump.write.load import Load

FAR_S = 60.0
"""Further ahead of W a Commit's timestamp is no matter of an oracle that is asked just now."""
TOLD = 4
"""Damaged segments that are named."""
DRAINED = "nobody serves {}: another Pump drains it, takes no Prewrites for it, takes it offline"


class Announcer:
    def __init__(
        self,
        clock: Clock,
        identity: Identity,
        config: PumpConfig,
        load: Load,
        segments: Segments,
        purge: PurgePoint,
        resolver: Ref[ResolverMessage],
        verifier: Ref[VerifierMessage],
        leaving: Leaving,
        puller: Ref[PullerMessage],
        gc: Ref[GcMessage],
        keeper: Ref[KeeperMessage],
    ) -> None:
        self._clock = clock
        self._identity = identity
        self._host = config.advertise_addr
        self._http = config.http_addr
        self._label = config.labels or None
        self._load = load
        self._segments = segments
        self._purge = purge
        self._resolver = resolver
        self._verifier = verifier
        self._leaving = leaving
        self._puller = puller
        self._gc = gc
        self._keeper = keeper

    async def describe(self) -> Heartbeat:
        now, reached, leaving = await self._leaving.look()
        late: Shown = await self._verifier.ask(lambda reply: ReadSuspects(1, reply))
        waiting: list[Waiting] = await self._resolver.ask(lambda reply: ReadWaiting(1, reply))
        retention: list[str] = await self._gc.ask(ReadBehind)
        node = NodeStatus(
            nodeId=self._identity.node,
            host=self._host or self._identity.address,
            http=self._http,
            score=0 if self._identity.adopted else self._load.score(self._clock.monotonic()),
            label=self._label,
            maxCommitTS=now.max_commit_ts,
            kind=PUMP,
            epoch=self._identity.epoch,
            mark=self._identity.mark,
            life=self._identity.life,
            highTS=now.high_ts,
            # After a restart W is what the oracle said, perhaps nothing yet: this tells of data.
            logTS=max(self._segments.newest_ts, self._purge.ts),
            resolvedTS=now.resolved_ts,
            detail=complaints(late, waiting) | retained(retention) | self._doubtful(now) | leaving,
            open=now.open,
            counts={"binlogs": self._load.binlogs},
        )
        return Heartbeat(node, feeds=await self._puller.ask(ReadFeeds), reached=reached)

    def _doubtful(self, resolved: Resolved) -> dict[str, str]:
        """What an ack or a read may not be worth here."""
        found: dict[str, str] = {}
        if self._identity.adopted:
            found["adopted"] = DRAINED.format(self._identity.slot)
        if self._identity.undrained:
            whys = sorted(self._identity.undrained.items())
            found["slots"] = "; ".join(f"{slot} can't be drained: {why}" for slot, why in whys)
        if not self._segments.sync:
            found["sync_log"] = "off: what is acked may be lost when the machine stops"
        if self._segments.damaged:
            found["damaged"] = damage(self._segments.damaged)
        if resolved.unanswered:
            found["oracle"] = f"nothing new can be read until it answers: {resolved.unanswered}"
        ahead_s = (physical_ms(resolved.max_commit_ts) - physical_ms(resolved.high_ts)) / 1000
        if ahead_s > FAR_S:
            found["far_commit"] = (
                f"Commit {resolved.max_commit_ts} lies {ahead_s:.0f} s above every timestamp known "
                "to be allocated: nobody can read it before that time"
            )
        return found

    async def on_state(self, state: str, safe_point: int) -> None:
        """The gc asks for the safe point itself: what was heard before may be out of date."""
        adopted = self._identity.adopted and state == ONLINE
        await self._leaving.on_state(PAUSED if adopted else state)
        if state == OFFLINE:
            await self._keeper.tell(ToldOffline())


def complaints(late: Shown, waiting: list[Waiting]) -> dict[str, str]:
    """What an operator should know, for `tidelog status`: the first of each kind."""
    found: dict[str, str] = {}
    for one in late.unpaired:
        nobody = (
            f"no Pump has it, its rows are missing; `tidelog resolve {one.start_ts} --accept` "
            "ends this"
        )
        found["unpaired"] = (
            f"Commit {one.commit_ts} of {one.start_ts} has no Prewrite here (segment {one.segment} "
            f"at {one.offset}); others asked {one.asked} times{_last(one.answer)}; "
            f"{nobody if one.missing else 'see verifier in /status'}"
        )
    for one in late.unverified:
        found["unverified"] = (
            f"Commit {one.commit_ts} of {one.start_ts} (segment {one.segment} at {one.offset}) "
            "came at or below resolved_ts: a second copy, if another Pump has it; asked "
            f"{one.asked} times{_last(one.answer)}; see verifier in /status"
        )
    for one in late.missing:
        found["missing"] = (
            f"Commit {one.commit_ts} of {one.start_ts} (segment {one.segment} at {one.offset}) "
            "became readable too late, readers past it are stopped: fill their feeds again from "
            f"below it, or `tidelog resolve {one.start_ts} --accept`"
        )
    for prewrite in waiting:
        found["oldest_open"] = (
            f"Prewrite {prewrite.start_ts} is open, begun {prewrite.age_s:.0f} s ago by its "
            f"start_ts, watched for {prewrite.watched_s:.0f} s, key "
            f"{prewrite.key or 'not read yet'}, asked {prewrite.asked} times"
            f"{_last(prewrite.answer)}; asked on, and if nobody can ever tell: "
            f"`tidelog resolve {prewrite.start_ts}`"
        )
    return found


def damage(segments: Mapping[str, str]) -> str:
    """Why each is damaged, by name: of the first few, for a heartbeat is one message."""
    names = list(segments)
    told = [f"{name}: {segments[name]}" for name in names[:TOLD]]
    if over := len(names) - len(told):
        told.append(f"and {over} more, see damaged_segments in /status")
    of_them = "it" if len(names) == 1 else "them"
    return (
        f"{'; '.join(told)}; readers of {of_them} are stopped, `tidelog inspect {names[0]}` shows "
        "what is left"
    )


def retained(texts: list[str]) -> dict[str, str]:
    """Readers who may lose something, or have."""
    return {"retention": "; ".join(texts)} if texts else {}


def _last(answer: str) -> str:
    return f", last answer: {answer}" if answer else ""
