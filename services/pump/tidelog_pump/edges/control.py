"""What `pump.<node>.control` is answered: looking, who-has, and an operator's verdicts."""

from __future__ import annotations

import msgspec

from tidelog import payload
from tidelog.actor import Ref
from tidelog.errors import BadInput, Conflict, Refused, Unavailable
from tidelog.ports import Clock, IndexStore, Oracle
from tidelog.pump_control import ControlRequest, Forgotten, Inspected, PumpStatus, WhoHas
from tidelog.subjects import is_replay
from tidelog.timestamps import physical_ms
from tidelog_pump.identity import Identity
from tidelog_pump.index import keys
from tidelog_pump.index.indexer import look_up
from tidelog_pump.index.keys import State, Transaction
from tidelog_pump.late.reader import HAVE, NO, PENDING, PURGED
from tidelog_pump.late.verifier import Accept, ReadMissing, VerifierMessage
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments
from tidelog_pump.pull.puller import Forget, PullerMessage, ReadFeeds
from tidelog_pump.retention.gc_actor import Collect, GcMessage
from tidelog_pump.sort.resolver import key_of
from tidelog_pump.sort.sorter import OpenPrewrite
from tidelog_pump.sort.sorter_actor import AwaitResolved, ReadOpen, Resolved, SorterMessage
from tidelog_pump.write.writer import Append, Outcome, WriterMessage

VERBS = "status, inspect, who-has, resolve, accept, forget, gc"
LIVES_S = 60.0
"""A feed that pulled so lately is read."""
INDEX_WAIT_S = 2.0
LOOK_S = 0.02


class Controller:
    """`oracle` is None under `follow`: a commit_ts may then be `skew_ms` ahead of the clock."""

    def __init__(
        self,
        clock: Clock,
        identity: Identity,
        segments: Segments,
        store: IndexStore,
        oracle: Oracle | None,
        sorter: Ref[SorterMessage],
        writer: Ref[WriterMessage],
        verifier: Ref[VerifierMessage],
        puller: Ref[PullerMessage],
        gc: Ref[GcMessage],
        purge: PurgePoint,
        *,
        cluster_id: int,
        clock_skew_s: float,
    ) -> None:
        self._clock = clock
        self._identity = identity
        self._segments = segments
        self._store = store
        self._oracle = oracle
        self._sorter = sorter
        self._writer = writer
        self._verifier = verifier
        self._puller = puller
        self._gc = gc
        self._purge = purge
        self._cluster_id = cluster_id
        self._skew_ms = int(clock_skew_s * 1000)

    async def answer(self, asked: ControlRequest) -> msgspec.Struct:
        """Raises a TidelogError that says why not."""
        match asked.verb:
            case "status":
                return await self._status()
            case "inspect":
                return await self._inspect(asked.ts)
            case "who-has":
                return WhoHas(await self._who_has(asked.ts, asked.commit_ts))
            case "resolve":
                return await self._resolve(asked.ts, asked.commit_ts)
            case "forget":
                return await self._forget(asked.feed)
            case "gc":
                return await self._gc.ask(Collect)
            case "accept":
                await self._verifier.ask(lambda reply: Accept(asked.ts, reply))
                return await self._inspect(asked.ts)
            case _:
                raise BadInput(f"unknown verb {asked.verb!r}", hint=VERBS)

    async def _forget(self, feed: str) -> Forgotten:
        """Whether it is registered anywhere, the asker looks. A replay's own Drainer says that it
        ended, mostly in the minute of its last pull; one that still pulls is known again at once.
        """
        lives_s = 0.0 if is_replay(feed) else LIVES_S
        gone: dict[str, int] = await self._puller.ask(lambda reply: Forget([feed], lives_s, reply))
        if feed not in gone and feed in await self._puller.ask(ReadFeeds):
            raise Refused(
                f"feed {feed!r} pulled from {self._identity.node} in the last {LIVES_S:.0f} s",
                hint="stop its reader first",
            )
        return Forgotten(gone.get(feed))

    async def _status(self) -> PumpStatus:
        now: Resolved = await self._sorter.ask(lambda reply: AwaitResolved(-1, 0, reply))
        return PumpStatus(
            self._identity.node,
            self._identity.epoch,
            now.resolved_ts,
            now.high_ts,
            now.max_commit_ts,
        )

    async def _inspect(self, start_ts: int) -> Inspected:
        known = look_up(self._store, start_ts)
        if known is None:
            return Inspected("unknown")
        state, commit_ts, (fid, offset, length, _) = known
        late = self._late(start_ts, commit_ts)
        if self._store.get(keys.unpaired_key(start_ts)) is not None:
            missing: bool = await self._verifier.ask(lambda reply: ReadMissing(start_ts, reply))
            late = "missing" if missing else "unverified"
        return Inspected(state.name.lower(), commit_ts, fid, offset, length, late)

    def _late(self, start_ts: int, commit_ts: int) -> str:
        if self._store.get(keys.late_key(commit_ts, start_ts)) is not None:
            return "missing"
        suspect = self._store.get(keys.suspect_key(commit_ts, start_ts))
        return "" if suspect is None else "unverified"

    async def _who_has(self, start_ts: int, commit_ts: int) -> str:
        """For the verifier of another Pump. A copy that is late here too vouches for nothing."""
        known, certain = await self._known(start_ts)
        if known is None and not certain:
            return PENDING
        if known is None:
            return PURGED if commit_ts <= self._purge.ts else NO
        if known.state is State.OPEN:
            return PENDING
        if known.state is State.LOST or known == (State.COMMITTED, commit_ts, keys.NOWHERE):
            return PURGED
        if known[:2] != (State.COMMITTED, commit_ts):
            return NO
        return NO if self._late(start_ts, commit_ts) else HAVE

    async def _known(self, start_ts: int) -> tuple[Transaction | None, bool]:
        """What the index says, and is it all that was in the log when we were asked?"""
        known = look_up(self._store, start_ts)
        if known is not None:
            return known, True
        certain = await self._indexed()
        return look_up(self._store, start_ts), certain

    async def _indexed(self) -> bool:
        """Until everything that is in the log now is in the index, or too long."""
        end = self._segments.end
        until_s = self._clock.monotonic() + INDEX_WAIT_S
        while self._head() < end:
            if self._clock.monotonic() > until_s:
                return False
            await self._clock.sleep(LOOK_S)
        return True

    def _head(self) -> Pointer:
        value = self._store.get(keys.HEAD_KEY)
        return Pointer(0, 0) if value is None else Pointer(*keys.unpack_head(value)[:2])

    async def _resolve(self, start_ts: int, commit_ts: int) -> Inspected:
        """The operator's verdict on an open Prewrite: appended as the upstream's would be."""
        known, certain = await self._known(start_ts)
        if known is None and not certain:
            raise Refused(f"the index of {self._identity.node} is behind", hint="try again")
        if known is None:
            raise BadInput(f"{self._identity.node} knows no transaction {start_ts}")
        if known.state is not State.OPEN:
            raise _closed(start_ts, known)
        if commit_ts:
            await self._check_commit_ts(start_ts, commit_ts)
        closing = payload.verdict(start_ts, commit_ts, key_of(self._segments, known.place))
        outcomes: list[Outcome] = await self._writer.ask(
            lambda reply: Append(self._cluster_id, [closing], reply, own=True)
        )
        if outcomes[0] is not None:
            raise outcomes[0]
        if not await self._indexed():
            raise Unavailable(
                "the verdict is in the log and not in the index yet",
                hint="look with `tidelog inspect --ts` whether it holds",
            )
        became = await self._inspect(start_ts)
        wanted = State.COMMITTED if commit_ts else State.ROLLED_BACK
        if (became.state, became.commit_ts) != (wanted.name.lower(), commit_ts):
            raise _closed(start_ts, look_up(self._store, start_ts) or known)
        return became

    async def _check_commit_ts(self, start_ts: int, commit_ts: int) -> None:
        """A commit_ts that is no timestamp of the oracle, or that readers are past, or that another
        transaction has, would break I2 or I3."""
        if commit_ts <= start_ts:
            raise BadInput(f"commit_ts {commit_ts} is not above start_ts {start_ts}")
        open_now: OpenPrewrite | None = await self._sorter.ask(
            lambda reply: ReadOpen(start_ts, reply)
        )
        if open_now is None:
            raise Refused(
                f"transaction {start_ts} is being closed, or not read yet", hint="try again"
            )
        if commit_ts <= open_now.bound:
            raise Refused(
                f"commit_ts {commit_ts} is not above {open_now.bound}, which was allocated before "
                f"the Prewrite came: readers may be past it, so this is a second copy",
                hint="--rollback closes this copy, if another Pump has the transaction",
            )
        if commit_ts > await self._newest(commit_ts):
            raise Refused(f"commit_ts {commit_ts} has not been allocated yet")
        for key, value in self._store.scan(*keys.commit_range(commit_ts - 1, commit_ts), 1):
            other = keys.unpack_commit(key, value)[1]
            raise Conflict(f"commit_ts {commit_ts} is of another transaction, {other}")

    async def _newest(self, commit_ts: int) -> int:
        """`commit_ts` or more, if it can have been allocated."""
        if self._oracle is not None:
            return await self._oracle.fresh(commit_ts)
        ahead = physical_ms(commit_ts) - self._clock.wall_ms()
        return commit_ts if ahead <= self._skew_ms else 0


def _closed(start_ts: int, known: Transaction) -> Refused:
    state = known.state.name.lower().replace("_", " ")
    at = f" at {known.commit_ts}" if known.commit_ts else ""
    hint = "nothing is to be decided of it any more"
    if known.state is State.UNPAIRED:
        hint = f"`tidelog resolve {start_ts} --accept` lets readers do without its rows"
    return Refused(f"transaction {start_ts} is closed: {state}{at}", hint=hint)
