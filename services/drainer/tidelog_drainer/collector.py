"""The collector: owns the merge and the cursors, and asks source 0 before anything is emitted."""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from tidelog import subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import (
    ActorStopped,
    BadInput,
    Stopped,
    StreamMissing,
    Unavailable,
    UnparsablePayload,
)
from tidelog.kv import Bucket
from tidelog.ports import Ports, StreamState
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.cursor import Cursor
from tidelog_drainer.mail import (
    AskStart,
    CollectorMail,
    Leave,
    Merged,
    Nudge,
    PublisherMail,
    Pulled,
    PumpJoins,
)
from tidelog_drainer.membership import MembershipView, Verdict, announced_pumps, read_pumps
from tidelog_drainer.merger import Disorder, Merger, Overtaken
from tidelog_drainer.metrics import DUPLICATES
from tidelog_drainer.online_edge import serve_online
from tidelog_drainer.sources import Sources

IDLE_S = 1.0
"""Without anything to emit, source 0 is looked at and idle Pumps are nudged this often."""
NUDGE_AGAIN_S = 0.2
RETRY_S = 0.2

log = structlog.get_logger()


class Collector(Actor[CollectorMail]):
    """Merges what the cursors deliver and hands it to the publisher, in commit order."""

    tick_s = NUDGE_AGAIN_S

    def __init__(self, config: DrainerConfig, ports: Ports, publisher: Ref[PublisherMail]) -> None:
        self._config = config
        self._ports = ports
        self._publisher = publisher
        self._bucket = Bucket(ports.bus, subjects.members_bucket(config.cluster))
        self._view = MembershipView(config.lease_s)
        self._merger: Merger | None = None
        self._emitting: asyncio.Task[None]
        self._cursors: dict[str, tuple[Ref[Nudge], asyncio.Task[None], Cursor]] = {}
        self._nudged: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, list[Reply[None]]] = {}
        self._joining: dict[str, PumpJoins] = {}
        """Of each Pump the last question."""
        self._moved = asyncio.Event()
        self._sources = Sources(ports.disk)
        self._halted: dict[str, tuple[str, Reply[None]]] = {}
        """Sources with a typed stop: why, and the cursor that goes unanswered."""
        self._feed_stopped = ""
        """The publisher's typed stop, where it came before a merge: then none begins."""
        self._left = False
        """It reads and emits nothing any more: who asks to be a source is told yes."""
        self._error = ""
        self._consulted = -IDLE_S
        self._added_upto = ("", 0)
        self._idle_since = 0.0

    async def on_start(self) -> None:
        subject = subjects.drainer(self._config.cluster, self._config.node, "pump-online")
        self.spawn(serve_online(self._ports.bus, subject, self.self_ref), "pump-online")
        self._emitting = self.spawn(self._emit_for_ever(), "emit")

    async def on_batch(self, batch: list[CollectorMail]) -> None:
        for message in batch:
            match message:
                case Pulled():
                    self._absorb(message)
                case PumpJoins(node):
                    if node in self._joining:
                        self._joining[node].reply.fail(Unavailable(f"{node} asked again"))
                    self._joining[node] = message
                case Leave(reply):
                    self._leave()
                    reply.set(None)
        await self._admit()
        self._nudge_behind()
        self._moved.set()

    async def on_tick(self) -> None:
        self._nudge_behind()

    def weigh(self, message: CollectorMail) -> int:
        return message.size + 64 if isinstance(message, Pulled) else 64

    # Sources

    def _absorb(self, message: Pulled) -> None:
        merger = self._merger
        if merger is None or message.node not in merger.sources:
            message.reply.fail(ActorStopped("this source was removed"))
            return
        try:
            merger.push(message.node, message.txns, message.resolved, message.size)
        except (Disorder, Overtaken) as error:
            # Unanswered: this cursor reads no further, and the merge stands at its source.
            self._halted[message.node] = str(error), message.reply
            log.error(
                "the merge stands still",
                error=error.message,
                hint=error.hint,
                kind=type(error).__name__,
                pump=message.node,
                commit_ts=error.commit_ts,
                emitted_ts=merger.emitted,
            )
            return
        if merger.sources[message.node].bytes < self._config.source_buffer_bytes:
            message.reply.set(None)
        else:
            self._waiting.setdefault(message.node, []).append(message.reply)

    async def _admit(self) -> None:
        """Answer the registry once the Pump is a source. A feed that stopped before its merge
        began passes nobody in this life: the Pump is kept for the merge of the next (ADR 6).
        Before the position is known, the registry waits: what "now" is must not change under a
        Pump that writes already."""
        known = self._merger is not None or self._feed_stopped or self._left
        if not self._joining or not known:
            return
        joining, self._joining = self._joining, {}
        if self._merger is not None and not self._left:
            for node in joining:
                self._meet(node)
        await self._remember(*joining)
        for message in joining.values():
            message.reply.set(None)

    async def _remember(self, *joining: str) -> None:
        if self._merger is None or self._left:
            await self._sources.keep_also(joining)
        else:
            await self._sources.keep(list(self._cursors))

    def _meet(self, node: str) -> None:
        assert self._merger is not None
        self._add(node, self._sources.met(node, self._merger.emitted))

    def _add(self, node: str, after_ts: int) -> None:
        assert self._merger is not None
        if not self._merger.add(node, after_ts):
            return
        self._sources.added(node, after_ts, self._merger.emitted)
        after_ts = self._merger.sources[node].resolved
        cursor = Cursor(self._config, self._ports, self.self_ref, node, after_ts)
        ref, task = self.spawn_actor(f"cursor-{node}", cursor)
        self._cursors[node] = (ref, task, cursor)
        log.info("source added", pump=node, after_ts=after_ts)

    def _remove(self, node: str) -> None:
        assert self._merger is not None
        self._merger.remove(node)
        self._sources.tombstoned(node)
        known = self._cursors.pop(node, None)
        if known is not None:
            known[1].cancel()
            self._nudged.pop(node, None)
            log.info("source removed by its tombstone", pump=node)
        halted = self._halted.pop(node, None)
        if halted is not None:
            halted[1].fail(ActorStopped("this source was removed"))

    def _leave(self) -> None:
        self._left = True
        self._emitting.cancel()
        for _, task, _ in self._cursors.values():
            task.cancel()

    def _nudge_behind(self) -> None:
        """Pumps that hold back a received transaction are made to learn a newer timestamp; when
        nothing moves, all are, so that the watermark does."""
        merger = self._merger
        if merger is None or self._left:
            return
        now = self._ports.clock.monotonic()
        want = merger.newest_waiting()
        if want:
            self._idle_since = now
        elif now - self._idle_since >= IDLE_S:
            self._idle_since = now
            for node in self._cursors:
                self._nudge(node, merger.highest(), now)
        for node, source in merger.sources.items():
            if source.resolved >= want or source.gone:
                continue
            asked, when = self._nudged.get(node, (0, 0.0))
            if want > asked or now - when >= NUDGE_AGAIN_S:
                self._nudge(node, want, now)

    def _nudge(self, node: str, want: int, now: float) -> None:
        known = self._cursors.get(node)
        if known is not None and known[0].alive and known[0].try_tell(Nudge(want)):
            self._nudged[node] = (want, now)

    # Emission

    async def _emit_for_ever(self) -> None:
        try:
            begin = await self._publisher.ask(AskStart)
        except (Stopped, BadInput) as error:
            self._feed_stopped = str(error)
            await self._admit()
            return
        known = self._sources.begin(begin.commit_ts, ours=begin.ours)
        self._merger = Merger(begin.commit_ts)
        for node, after_ts in known.items():
            self._add(node, after_ts)
        await self._admit()
        log.info("merge begins", after_ts=begin.commit_ts, feed=self._config.feed)
        while True:
            try:
                emitted = await self._emit()
            except (Unavailable, StreamMissing, UnparsablePayload) as error:
                if isinstance(error, ActorStopped):
                    raise
                self._error = f"source 0: {error}"
                await self._ports.clock.sleep(RETRY_S)
                continue
            if not emitted:
                await self._wait_moved()

    async def _emit(self) -> bool:
        """Emit what is complete, if source 0 allows it; False when there is nothing to do now."""
        merger = self._merger
        assert merger is not None
        upto = merger.horizon()
        idle = upto <= merger.emitted
        if idle and self._ports.clock.monotonic() - self._consulted < IDLE_S:
            return False
        if not await self._consult():
            return False
        if self._sources.behind and merger.horizon() > merger.emitted:
            await self._sources.caught_up(list(self._cursors))
        # A Pump that was added meanwhile takes the horizon back to what was emitted.
        upto = min(upto, merger.horizon())
        if upto <= merger.emitted:
            return False
        duplicates = merger.duplicates
        txns = merger.take(upto)
        DUPLICATES.labels(self._config.feed).inc(merger.duplicates - duplicates)
        self._refill()
        size = sum(len(txn[2]) for txn in txns)
        await self._publisher.ask(lambda reply: Merged(txns, upto, size, reply))
        return True

    async def _consult(self) -> bool:
        """Read the membership bucket (I3). True: the sources are all there are."""
        clock = self._ports.clock
        self._consulted = clock.monotonic()
        state = await self._bucket.state()
        verdict = self._view.judge(state, clock.monotonic(), clock.wall_ms())
        if verdict is Verdict.SAME:
            self._error = ""
            return True
        if verdict is Verdict.UNTRUSTED:
            self._error = f"source 0: {self._view.reason}"
            if state is not None:
                await self._add_at_least(state)
            await clock.sleep(RETRY_S)
            return False
        pumps, last_seq = await read_pumps(self._bucket)
        if self._view.doubted:
            pumps = await announced_pumps(self._ports.bus, self._config.cluster) | pumps
        for node, is_source in pumps.items():
            if is_source:
                self._meet(node)
            else:
                self._remove(node)
        await self._remember()
        self._view.entries_read(last_seq)
        self._moved.set()
        return False

    async def _add_at_least(self, state: StreamState) -> None:
        """Whatever a bucket that is not trusted yet leaves out or says of tombstones: the Pumps
        that it names are kept, should all be lost before it is trusted (seed 1014)."""
        if (state.created, state.last_seq) == self._added_upto:
            return
        pumps, last_seq = await read_pumps(self._bucket)
        for node, is_source in pumps.items():
            if is_source:
                self._meet(node)
        await self._remember()
        self._added_upto = (state.created, last_seq)

    def _refill(self) -> None:
        """Let cursors go on whose buffers have room again."""
        assert self._merger is not None
        for node in list(self._waiting):
            source = self._merger.sources.get(node)
            if source is not None and source.bytes >= self._config.source_buffer_bytes:
                continue
            for reply in self._waiting.pop(node):
                reply.set(None)

    async def _wait_moved(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_S):
                await self._moved.wait()
        self._moved.clear()

    def status(self) -> dict[str, object]:
        merger = self._merger
        if merger is None:
            waits = "waiting for the publisher's position"
            state = "no merge: the feed stopped" if self._feed_stopped else waits
            return {"state": state, "joining": sorted(self._joining)}
        stopped = "; ".join(why for why, _ in self._halted.values())
        horizon = merger.horizon()
        sources = {
            node: {
                "resolved_ts": source.resolved,
                "buffered": len(source.txns),
                "bytes": source.bytes,
                "holds_merge": source.resolved <= horizon and not source.gone,
            }
            | (self._cursors[node][2].status() if node in self._cursors else {})
            for node, source in merger.sources.items()
        }
        return {
            "emitted_ts": merger.emitted,
            "horizon_ts": horizon,
            "duplicates": merger.duplicates,
            "trusted": self._view.trusted,
            "left": self._left,
            "error": stopped,
            "not_ready": stopped,
            "waiting": self._error,
            "sources": sources,
        }
