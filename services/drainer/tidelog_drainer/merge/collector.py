"""The collector: owns the merge and the cursors, and asks source 0 before anything is emitted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

import structlog

from tidelog import subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import (
    ActorStopped,
    BadInput,
    DiskFull,
    Purged,
    Stopped,
    StreamMissing,
    Unavailable,
    UnparsablePayload,
)
from tidelog.failpoints import hit
from tidelog.filter.unwanted import Unwanted
from tidelog.kv import Bucket
from tidelog.messages import PumpOnline
from tidelog.ports import Ports, StreamState
from tidelog.questions import serve_questions
from tidelog.timestamps import TS_MAX
from tidelog_drainer.config import DrainerConfig
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
from tidelog_drainer.merge.cursor import Cursor
from tidelog_drainer.merge.membership import MembershipView, Verdict, announced_pumps, read_pumps
from tidelog_drainer.merge.merger import Disorder, Merger, Overtaken, SameCommitTs
from tidelog_drainer.merge.sources import Sources
from tidelog_drainer.merge.spool import Spool
from tidelog_drainer.merge.window import Window
from tidelog_drainer.metrics import DROPPED, DUPLICATES, GIVEN_UP

IDLE_S = 1.0
"""Without anything to emit, source 0 is looked at and idle Pumps are nudged this often."""
NUDGE_AGAIN_S = 0.2
RETRY_S = 0.2
REPLAY_SHARE = 0.25
"""Of the time a rewind's publisher may be busy: the feed itself goes first."""
PAUSE_S = 1.0

AT_PUMP = "at_pump"
"""Reason under which is counted what the Pumps leave out; what a frame that was lost had left out
counts again."""

log = structlog.get_logger()


class Collector(Actor[CollectorMail]):
    """Merges what the cursors deliver and hands it to the publisher, in commit order."""

    tick_s = NUDGE_AGAIN_S

    def __init__(
        self,
        config: DrainerConfig,
        ports: Ports,
        publisher: Ref[PublisherMail],
        window: Window | None = None,
    ) -> None:
        self._config = config
        self._ports = ports
        self._publisher = publisher
        self._window = window
        """Of a rewind: the part of the past that it merges."""
        self._bucket = Bucket(ports.bus, subjects.members_bucket(config.cluster))
        self._view = MembershipView(config.lease_s)
        self._merger: Merger | None = None
        self._after_ts = 0
        """Where the merge began."""
        self._read: set[str] = set()
        """Of a rewind: the Pumps that are gone, and were read before."""
        self._emitting: asyncio.Task[None]
        self._cursors: dict[str, tuple[Ref[Nudge], asyncio.Task[None], Cursor]] = {}
        self._nudged: dict[str, tuple[int, float]] = {}
        self._waiting: dict[str, list[Reply[Unwanted]]] = {}
        self._unwanted = Unwanted()
        self._left_out = 0
        self._joining: dict[str, PumpJoins] = {}
        """Of each Pump the last question."""
        self._moved = asyncio.Event()
        self._sources = Sources(ports.disk)
        self._label = subjects.feed_label(config.feed)
        self._spool = Spool(ports.disk, config.spool_above)
        self._halted: dict[str, tuple[str, Reply[Unwanted]]] = {}
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
        await self._spool.clear()
        if self._window is None:
            subject = subjects.drainer(self._config.cluster, self._config.node, "pump-online")
            joining = serve_questions(self._ports.bus, subject, PumpOnline, self.self_ref, _joins)
            self.spawn(joining, "pump-online")
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
        if message.left_out:
            self._left_out += message.left_out
            DROPPED.labels(self._label, AT_PUMP).inc(message.left_out)
        try:
            merger.push(message.node, message.txns, message.resolved, message.size)
        except (Disorder, Overtaken) as error:
            # Unanswered: this cursor reads no further, and the merge stands at its source.
            self._halted[message.node] = str(error), message.reply
            self._say(error)
            return
        if merger.sources[message.node].bytes < self._config.source_buffer_bytes:
            message.reply.set(self._unwanted)
        else:
            self._waiting.setdefault(message.node, []).append(message.reply)

    async def _admit(self) -> None:
        """Answer the registry once the Pump is a source. Without a merge it is kept for the one
        that begins later: where the feed begins was decided when it was created, so that no
        Pump's joining changes it (ADR 6)."""
        if not self._joining:
            return
        joining, self._joining = self._joining, {}
        try:
            if self._merger is None or self._left:
                await self._sources.keep_also(joining)
            if self._merger is not None and not self._left:
                for node in joining:
                    self._meet(node)
                await self._remember()
        except DiskFull as error:
            for message in joining.values():
                message.reply.fail(error)
            return
        hit("drainer.collector.admitted")
        for message in joining.values():
            message.reply.set(None)

    async def _remember(self) -> None:
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
        cursor = Cursor(self._config, self._ports, self.self_ref, node, after_ts, self._spool)
        ref, task = self.spawn_actor(f"cursor-{node}", cursor)
        self._cursors[node] = (ref, task, cursor)
        log.info("source added", pump=node, after_ts=after_ts)

    def _remove(self, node: str, last_ts: int) -> None:
        """A rewind lacks what it has not read of one that is gone: also of one that was read by an
        earlier life, and not published then. Raises Purged."""
        assert self._merger is not None
        source = self._merger.sources.get(node)
        if self._window is not None and node not in self._read:
            read = source.resolved if source is not None else self._after_ts
            if read < (self._until if source is not None else min(last_ts, self._until)):
                raise Purged(f"{node} went offline, and was read up to {read} only")
            self._read.add(node)
        self._merger.remove(node)
        self._sources.tombstoned(node)
        known = self._cursors.pop(node, None)
        if known is not None:
            known[1].cancel()
            self._nudged.pop(node, None)
            log.info("source removed by its tombstone", pump=node)
        # Its cursor goes unanswered to its end: an error would come before the cancellation, and
        # be the collector's.
        self._halted.pop(node, None)

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
        following = self.spawn(self._follow(), "follow")
        try:
            begin = await self._publisher.ask(AskStart)
        except (Stopped, BadInput) as error:
            self._feed_stopped = str(error)
            return
        following.cancel()
        await asyncio.wait([following])
        known = self._sources.begin(begin.commit_ts, chain=begin.chain, apart=begin.apart)
        self._merger = Merger(begin.commit_ts)
        self._after_ts = begin.commit_ts
        for node, after_ts in known.items():
            self._add(node, after_ts)
        await self._admit()
        log.info("merge begins", after_ts=begin.commit_ts, feed=self._config.feed)
        kept = False
        while True:
            try:
                if not kept:
                    # What is passed from now on is passed with these, also where the bucket tells
                    # nothing new (seed 19402).
                    await self._remember()
                    kept = True
                emitted = await self._emit()
            except (Unavailable, StreamMissing, UnparsablePayload, DiskFull) as error:
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
        upto = min(merger.horizon(), self._until)
        idle = upto <= merger.emitted
        if idle and self._ports.clock.monotonic() - self._consulted < IDLE_S:
            return False
        if not await self._consult():
            return False
        if self._sources.behind and merger.horizon() > merger.emitted:
            await self._sources.caught_up(list(self._cursors))
        # A Pump that was added meanwhile takes the horizon back to what was emitted.
        upto = min(upto, merger.horizon(), self._until)
        if upto <= merger.emitted:
            return False
        duplicates = merger.duplicates
        hit("drainer.collector.before_emission")
        txns = merger.take(upto)
        DUPLICATES.labels(self._label).inc(merger.duplicates - duplicates)
        self._tell_twins(merger)
        self._refill()
        size, upto = sum(len(txn[2]) for txn in txns), merger.emitted
        began = self._ports.clock.monotonic()
        self._unwanted = await self._publisher.ask(lambda reply: Merged(txns, upto, size, reply))
        hit("drainer.collector.handed_over")
        if self._window is not None:
            self._window.passed(size, upto)
            took = self._ports.clock.monotonic() - began
            await self._ports.clock.sleep(min(PAUSE_S, took * (1 / REPLAY_SHARE - 1)))
        return True

    @property
    def _until(self) -> int:
        """A rewind merges no further; what Pumps that joined later hold lies above it."""
        return self._window.until if self._window is not None else TS_MAX

    def _tell_twins(self, merger: Merger) -> None:
        """Of two transactions of one commit_ts: the stop, or what an accepted loss has decided."""
        for node, (commit_ts, start_ts, _) in merger.given_up:
            GIVEN_UP.labels(self._label).inc()
            log.warning(
                "a transaction was given up with its pump",
                pump=node,
                commit_ts=commit_ts,
                start_ts=start_ts,
            )
        if merger.stopped is not None:
            self._say(merger.stopped)

    def _say(self, error: Disorder | Overtaken | SameCommitTs) -> None:
        assert self._merger is not None
        log.error(
            "the merge stands still",
            error=error.message,
            hint=error.hint,
            kind=type(error).__name__,
            commit_ts=error.commit_ts,
            emitted_ts=self._merger.emitted,
        )

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
        hit("drainer.collector.before_learning")
        await self._learn(pumps)
        hit("drainer.collector.learned")
        self._view.entries_read(last_seq)
        self._moved.set()
        return False

    async def _learn(self, pumps: Mapping[str, int | None]) -> None:
        """Which are sources, and which have a tombstone. Durable when it returns. Raises Purged."""
        if self._merger is None:
            await self._sources.follow({node: last is None for node, last in pumps.items()})
            return
        for node, last_ts in pumps.items():
            if last_ts is None:
                self._meet(node)
            else:
                self._remove(node, last_ts)
        await self._remember()

    async def _follow(self) -> None:
        """Without a merge it still knows the Pumps, should all else forget them (ADR 6); and a
        takeover need not wait until the registry vouches for a bucket that was met just now."""
        while True:
            await self._ports.clock.sleep(IDLE_S)
            with contextlib.suppress(Unavailable, StreamMissing, UnparsablePayload, DiskFull):
                await self._consult()

    async def _add_at_least(self, state: StreamState) -> None:
        """Whatever a bucket that is not trusted yet leaves out or says of tombstones: the Pumps
        that it names are kept, should all be lost before it is trusted (seed 1014)."""
        if (state.created, state.last_seq) == self._added_upto:
            return
        pumps, last_seq = await read_pumps(self._bucket)
        await self._learn({node: None for node, last_ts in pumps.items() if last_ts is None})
        self._added_upto = (state.created, last_seq)

    def _refill(self) -> None:
        """Let cursors go on whose buffers have room again."""
        assert self._merger is not None
        for node in list(self._waiting):
            source = self._merger.sources.get(node)
            if source is not None and source.bytes >= self._config.source_buffer_bytes:
                continue
            for reply in self._waiting.pop(node):
                reply.set(self._unwanted)

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
            return {"state": state, "known": self._sources.known}
        stops = [why for why, _ in self._halted.values()]
        if merger.stopped is not None:
            stops.append(str(merger.stopped))
        stopped = "; ".join(stops)
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
            "left_out_at_pumps": self._left_out,
            "trusted": self._view.trusted,
            "left": self._left,
            "error": stopped,
            "not_ready": stopped,
            "waiting": self._error,
            "sources": sources,
        }


def _joins(asked: PumpOnline, reply: Reply[None]) -> PumpJoins:
    return PumpJoins(asked.node, reply)
