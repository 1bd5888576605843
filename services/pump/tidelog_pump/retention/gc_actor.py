"""Retention at work: each hour, and when told to (`Collect`). What may go, `gc` says; the order in
which it goes, and what a crash leaves of it, `purge`; what goes from the index, `sweep`.

Who still needs what is asked anew for each run: of the registry the safe point and the consumers
behind it, of the puller what each feed was last asked for. (A safe point that was heard of earlier
may be above a consumer that has been registered since.) No answer, or the registry doesn't know
yet: nothing goes but by the hard cap. Nobody registered: age decides, and what the feeds known here
have pulled. What time it is, this machine's clock does not say alone (`now`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec
import structlog

from tidelog import ask_registry
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import ActorStopped, Fatal, TidelogError
from tidelog.failpoints import hit
from tidelog.ports import IndexStore, Ports
from tidelog.timestamps import TS_MAX, compose, physical_ms
from tidelog_pump import metrics
from tidelog_pump.config import Retention
from tidelog_pump.index import keys
from tidelog_pump.index.indexer import IndexerMessage, Lose
from tidelog_pump.index.keys import Head
from tidelog_pump.log.purge import PurgePoint, PurgeRecord
from tidelog_pump.log.segments import Segments
from tidelog_pump.pull.puller import Forget, PullerMessage, ReadFeeds, ReadMissed
from tidelog_pump.retention.gc import Decision, Held, Limits, decide, hiding, limits, warned_below
from tidelog_pump.retention.now import Now
from tidelog_pump.retention.sweep import Sweep, lost_between
from tidelog_pump.sort.sorter_actor import AwaitResolved, Resolved, SorterMessage

log = structlog.get_logger()

ASK_S = 3.0
FIRST_S = 60.0
"""From the start to the first run, if the interval is not shorter: a Pump that is restarted each
half an hour collects too."""
REMEMBERED_S = 600.0
"""A transaction is known to be over for at least so long after it began (design section 7)."""
MAX_ENDED = 1 << 16
"""Of a record's `ended`; those nearest to what went come first. Without the others an index built
anew shows some transactions as open, and the resolver asks about them."""
MAX_LOST = 16
MAX_TAKEN = 1 << 16
"""Of a record's `taken`, newest last. A Commit of one that is forgotten counts as unpaired."""
NAMED = 8
SAFE_POINT = "whoever the safe point waits for"
COUNTED = 100_000
BEHIND_S = 0.05
"""Between two pages while the index is busy with its own work."""
PAGE = 1024
SWEEP_ROOM = 256 << 10
"""Bytes free on the disk without which the index is not swept: it would have to log that, and a
write of it that fails ends the process. What stays goes with the next run's sweep."""
LOOK_S = 1.0
"""Between two looks at W."""


class Collected(msgspec.Struct, frozen=True):
    """What a run did. `stays`: why the next segment stays."""

    purge_ts: int
    segments: int
    bytes: int
    stays: str
    lost: list[str] = []


class Collect(msgspec.Struct, frozen=True):
    """Collect now, or wait for the run under way and then do it. Answered when the segments are
    gone; the index is swept behind that."""

    reply: Reply[Collected]


class ReadBehind(msgspec.Struct, frozen=True):
    """Who is about to lose something, and what was lost already: texts for an operator."""

    reply: Reply[list[str]]


class _Timer(msgspec.Struct, frozen=True):
    """The interval is over."""


class _Readers(NamedTuple):
    """The safe point, 0 = not known; by name, up to where everything was read: the consumers behind
    it, and what each feed was last asked for here. `missed`: (start_ts, commit_ts) of what a feed
    is past and was not given. It is stopped there, until an operator accepts that, and would not be
    any more once that is deleted."""

    safe_point: int
    known: dict[str, int]
    missed: dict[str, tuple[int, int]]


GcMessage = Collect | ReadBehind | _Timer
Answer = Reply[Collected]


class Gc(Actor[GcMessage]):
    def __init__(
        self,
        ports: Ports,
        cluster: str,
        segments: Segments,
        store: IndexStore,
        purge: PurgePoint,
        sorter: Ref[SorterMessage],
        puller: Ref[PullerMessage],
        indexer: Ref[IndexerMessage],
        *,
        retention: Retention,
        clock_skew_s: float,
        gauges: metrics.Gauges = metrics.OWN,
    ) -> None:
        self._clock = ports.clock
        self._bus = ports.bus
        self._disk = ports.disk
        self._cluster = cluster
        self._segments = segments
        self._store = store
        self._purge = purge
        self._sorter = sorter
        self._puller = puller
        self._indexer = indexer
        self._retention = retention
        self._gauges = gauges
        self._skew_s = clock_skew_s
        self._now = Now()
        self._ahead = ""
        """What to say of a clock that is ahead of the timestamps."""
        self._waiting: list[Answer] = []
        self._running: asyncio.Task[None] | None = None
        self._stopping = False
        self._behind: dict[str, int] = {}
        self._last: Collected | None = None
        self._error = ""

    async def on_start(self) -> None:
        self._gauges.gc_ts.set(physical_ms(self._purge.ts))
        self.spawn(self._keep_time(), "time")
        self.spawn(self._each_interval(), "interval")

    async def _keep_time(self) -> None:
        while True:
            try:
                await self._resolved()
            except ActorStopped:
                return
            await self._clock.sleep(LOOK_S)

    async def _resolved(self) -> Resolved:
        now: Resolved = await self._sorter.ask(lambda reply: AwaitResolved(-1, 0, reply))
        self._now.saw(now.high_ts, self._clock.monotonic())
        return now

    def _now_ms(self) -> int:
        """For all that age decides; says so where this machine's clock would say something else."""
        wall_ms = self._clock.wall_ms()
        now_ms, ahead_s = self._now.ms(wall_ms), self._now.ahead_s(wall_ms)
        before, self._ahead = self._ahead, ""
        if ahead_s > self._skew_s:
            self._ahead = (
                f"this Pump's clock is {ahead_s:.0f} s ahead of the newest timestamp known; "
                "retention goes by the timestamp"
            )
            if not before:
                log.warning("the clock is ahead of the timestamps", ahead_s=round(ahead_s))
        return now_ms

    def _newest_ts(self) -> int:
        """The largest timestamp that can have been allocated by now."""
        latest_ms = self._now.latest_ms(self._clock.wall_ms())
        return compose(latest_ms + int(self._skew_s * 1000))

    async def _each_interval(self) -> None:
        wait_s = min(FIRST_S, self._retention.interval_s)
        while True:
            await self._clock.sleep(wait_s)
            try:
                await self.self_ref.tell(_Timer())
            except ActorStopped:
                return  # Stopping: the run under way is waited for, no further one begins.
            wait_s = self._retention.interval_s

    async def on_batch(self, batch: list[GcMessage]) -> None:
        due = False
        for message in batch:
            match message:
                case Collect():
                    self._waiting.append(message.reply)
                    due = True
                case ReadBehind():
                    message.reply.set(self._complaints())
                case _Timer():
                    due = True
        if due and (self._running is None or self._running.done()):
            self._running = self.spawn(self._run(), "run")

    async def on_stop(self) -> None:
        """A run under way ends where it can be taken up again."""
        self._stopping = True
        if self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        """Until nobody asks for more."""
        while True:
            waiting, self._waiting = self._waiting, []
            try:
                done = await self._collect()
            except Fatal:
                raise
            except TidelogError as error:
                self._error = str(error)
                log.warning("no gc this time", error=self._error)
                for reply in waiting:
                    reply.fail(error)
            else:
                self._error, self._last = "", done
                for reply in waiting:
                    reply.set(done)
                hit("pump.gc.before_sweep")
                await self._sweep()
            if self._stopping or not self._waiting:
                return

    async def _collect(self) -> Collected:
        with metrics.GC_SECONDS.time():
            readers = await self._readers()
            now, now_ms, newest_ts = await self._resolved(), self._now_ms(), self._newest_ts()
            age_s, cap_s = self._retention.age_s, self._retention.hard_cap_s
            positions = readers.known | {SAFE_POINT: readers.safe_point}
            for feed, (start_ts, commit_ts) in readers.missed.items():
                positions[f"feed {feed}, which missed transaction {start_ts}"] = commit_ts - 1
            limit = limits(now_ms, age_s, cap_s, positions, now.resolved_ts, newest_ts)
            self._warn(readers.known, warned_below(now_ms, age_s), limit.cap_ts)
            held = await self._uncovered(await self._held(), limit)
            decision = decide(held, limit, self._purge.ts)
            taken = await self._taken(decision)
            above = await self._above(decision)
            lost = await self._lost(decision, readers, taken, above)
            if decision.going:
                await self._delete(decision, lost, taken + above)
        going = decision.going
        size = sum(segment.bytes for segment in going)
        return Collected(self._purge.ts, len(going), size, decision.stays, lost)

    async def _readers(self) -> _Readers:
        try:
            nodes = await ask_registry.nodes(self._bus, self._cluster, timeout_s=ASK_S)
        except TidelogError as error:
            log.info("the safe point is not known", reason=str(error))
            return _Readers(
                0, _named(await self._puller.ask(ReadFeeds)), await self._puller.ask(ReadMissed)
            )
        if nodes.settled:
            # Pulled once under a wrong name, for instance: nobody else will ever forget it.
            read = frozenset({c.feed for c in nodes.consumers} | {n.feed for n in nodes.nodes})
            idle_s = self._retention.age_s
            await self._puller.ask(lambda reply: Forget(None, idle_s, reply, read))
        known = _named(await self._puller.ask(ReadFeeds))
        for consumer in nodes.consumers:
            known[f"consumer {consumer.name} of feed {consumer.feed}"] = consumer.commit_ts
        return _Readers(nodes.safe_point, known, await self._puller.ask(ReadMissed))

    async def _held(self) -> list[Held]:
        """The segments that are closed and indexed. Read in this order, whatever is opened or
        paired meanwhile can only add to what is found: an open Prewrite is counted before the
        largest Commit is read."""
        value = self._store.get(keys.HEAD_KEY)
        head = Head(0, 0, 0) if value is None else keys.unpack_head(value)
        closed = [segment for segment in self._segments.closed() if segment.fid < head.fid]
        opened: dict[int, int] = {}
        if closed:
            async for page in self._pages(*keys.open_range()):
                for entry in page:
                    fid = keys.unpack_open(*entry)[2].fid
                    opened[fid] = opened.get(fid, 0) + 1
        get = self._store.get
        return [
            Held(
                fid,
                max_ts,
                keys.unpack_ts(get(keys.pointed_key(fid))),
                opened.get(fid, 0),
                size,
            )
            for fid, max_ts, size in closed
        ]

    async def _uncovered(self, held: list[Held], limit: Limits) -> list[Held]:
        """With `possible_ts`, where an impossible Commit hides it: read from all Commits that are
        left, which is rare enough."""
        hidden, found = hiding(held, limit), dict[int, int]()
        if hidden:
            async for page in self._pages(*keys.commit_range(self._purge.ts, limit.newest_ts)):
                for entry in page:
                    commit_ts, _, place = keys.unpack_commit(*entry)
                    if place.fid in hidden:
                        found[place.fid] = commit_ts
        return [one._replace(possible_ts=found.get(one.fid, 0)) for one in held]

    async def _pages(self, start: bytes, stop: bytes) -> AsyncIterator[list[tuple[bytes, bytes]]]:
        while True:
            page = self._store.scan(start, stop, PAGE)
            yield page
            if len(page) < PAGE:
                return
            start = page[-1][0] + b"\x00"
            await self._clock.sleep(0)

    async def _delete(self, decision: Decision, lost: list[str], taken: list[int]) -> None:
        """The order is `purge`'s."""
        first = decision.going[-1].fid + 1
        kept_lost = [*self._purge.record.lost, *lost][-MAX_LOST:]
        ended = await self._ended(first, decision.purge_ts)
        kept_taken = list(dict.fromkeys([*self._purge.record.taken, *taken]))[-MAX_TAKEN:]
        hit("pump.gc.before_record")
        await self._purge.move(PurgeRecord(decision.purge_ts, first, ended, kept_lost, kept_taken))
        await self._indexer.ask(Lose)
        hit("pump.gc.lost_told")
        self._gauges.gc_ts.set(physical_ms(decision.purge_ts))
        await self._segments.remove(range(first))
        await self._purge.gone()
        size = sum(segment.bytes for segment in decision.going)
        metrics.DELETED_SEGMENTS.inc(len(decision.going))
        metrics.DELETED_BYTES.inc(size)
        log.info(
            "purged", up_to=decision.purge_ts, segments=len(decision.going), bytes=size, first=first
        )

    async def _ended(self, first: int, purge_ts: int) -> list[tuple[int, int]]:
        """Whose end may lie before segment `first` while a Prewrite of theirs stays. A Commit above
        the purge point stays too."""
        found: list[tuple[int, int]] = []
        async for page in self._pages(*keys.ended_range(first, 1 << 32)):
            entries = (keys.unpack_ended(*entry) for entry in page)
            found += [entry for entry in entries if entry[1] <= purge_ts]
            if len(found) > MAX_ENDED:
                log.warning("too many Prewrites came after their end", kept=MAX_ENDED)
                break
        return found[:MAX_ENDED]

    async def _taken(self, decision: Decision) -> list[int]:
        """The start_ts of the open Prewrites that go."""
        found: list[int] = []
        if any(segment.open for segment in decision.forced):
            async for page in self._pages(*keys.open_range()):
                entries = (keys.unpack_open(*entry) for entry in page)
                found += [e[0] for e in entries if e[2].fid <= decision.going[-1].fid]
                del found[:-MAX_TAKEN]
        return found

    async def _above(self, decision: Decision) -> list[int]:
        """The start_ts of the transactions that go although they were committed above the purge
        point: those at a timestamp that can't have been allocated."""
        found: list[int] = []
        if any(segment.pointed_ts > decision.purge_ts for segment in decision.forced):
            async for page in self._pages(*keys.commit_range(decision.purge_ts, TS_MAX)):
                entries = (keys.unpack_commit(*entry) for entry in page)
                found += [e[1] for e in entries if e[2].fid <= decision.going[-1].fid]
                del found[:-MAX_TAKEN]
        return found

    async def _lost(
        self, decision: Decision, readers: _Readers, taken: list[int], above: list[int]
    ) -> list[str]:
        """What the hard cap takes, counted, logged and for the status."""
        if not decision.forced:
            return []
        up_to, found = decision.purge_ts, []
        opened = sum(segment.open for segment in decision.forced)
        if opened:
            metrics.HARD_CAP_LOST.labels("open_prewrite").inc(opened)
            found.append(f"{opened} open Prewrites, start_ts {_first(taken, opened)}")
        if above:
            metrics.HARD_CAP_LOST.labels("unread").inc(len(above))
            which = f"start_ts {_first(above, len(above))}"
            found.append(f"{len(above)} transactions committed above the purge point, {which}")
        for feed, (start_ts, commit_ts) in sorted(readers.missed.items()):
            if commit_ts <= up_to:
                metrics.HARD_CAP_LOST.labels("unread").inc()
                found.append(f"transaction {start_ts}, that feed {feed} had missed")
        positions = dict(sorted(readers.known.items()))
        if readers.safe_point < min(positions.values(), default=TS_MAX):
            positions[SAFE_POINT] = readers.safe_point
        for who, position in positions.items():
            lost = await self._count(max(position, self._purge.ts), up_to)
            if lost:
                metrics.HARD_CAP_LOST.labels("unread").inc(lost)
                found.append(f"{lost} transactions that {who} did not have, up to {up_to}")
        for line in found:
            log.error("lost to gc-hard-cap", what=line, purged_up_to=up_to)
        return found

    async def _count(self, after_ts: int, up_to: int) -> int:
        """Transactions committed above `after_ts` and up to `up_to`, at most COUNTED; a page at a
        time, for each of many readers: the writers go on."""
        counted = 0
        if after_ts < up_to:
            async for page in self._pages(*keys.commit_range(after_ts, up_to)):
                counted += len(page)
                if counted >= COUNTED:
                    break
        return min(counted, COUNTED)

    async def _sweep(self) -> None:
        remembered = compose(max(0, self._now_ms() - int(REMEMBERED_S * 1000)))
        record = self._purge.record
        if not self._has_room():
            log.warning("the disk is full: the index is swept later", needs=SWEEP_ROOM)
            return
        sweep = Sweep(self._store, record.ts, record.first, remembered, record.taken)
        done = False
        while not self._stopping and self._has_room() and not (done := sweep.step()):
            await self._clock.sleep(BEHIND_S if self._store.behind() else 0)
        metrics.DELETED_KEYS.inc(sweep.deleted)
        if done:
            self._gauges.done_gc_ts.set(physical_ms(record.ts))

    def _has_room(self) -> bool:
        return self._disk.free_bytes() >= SWEEP_ROOM

    def _warn(self, known: dict[str, int], below: int, cap_ts: int) -> None:
        """Readers who have yet to read what is about to be too old; logged when they become it."""
        behind = {
            who: position
            for who, position in known.items()
            if lost_between(self._store, max(position, self._purge.ts), below, 1)
        }
        for who in sorted(behind.keys() - self._behind.keys()):
            metrics.EARLY_ALERTS.labels(who).inc()
            hours = (physical_ms(behind[who]) - physical_ms(cap_ts)) / 3_600_000
            log.warning("a reader is behind", who=who, at=behind[who], hours_to_hard_cap=hours)
        self._behind = behind
        self._gauges.behind.set(len(behind))

    def _complaints(self) -> list[str]:
        at = [f"{who} has read up to {ts} only" for who, ts in sorted(self._behind.items())]
        at += [self._ahead] if self._ahead else []
        return [*at, *(f"lost to gc-hard-cap: {what}" for what in self._purge.record.lost)]

    def status(self) -> dict[str, object]:
        record, last = self._purge.record, self._last
        return {
            "gc_ts": record.ts,
            "first_segment": record.first,
            "behind": dict(self._behind),
            "lost": record.lost,
            "last": None if last is None else msgspec.to_builtins(last),
            "clock": self._ahead,
            "error": self._error,
        }


def _first(start_ts: list[int], count: int) -> str:
    """Of `count` of them."""
    return ", ".join(map(str, start_ts[:NAMED])) + (" and more" if count > NAMED else "")


def _named(feeds: dict[str, int]) -> dict[str, int]:
    return {f"feed {feed}": ts for feed, ts in feeds.items()}
