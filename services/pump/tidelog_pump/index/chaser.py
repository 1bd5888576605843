"""The slow chaser: a slow index holds nobody's ack back, and memory stays bounded (seeds/003).

While it is on, the writer appends, syncs and acks, and remembers nothing of what he wrote: the
chaser reads it from the segments. Off again, batches go to the indexer through memory, as before.

Why resolved_ts is still right (I2), although the writer enters no Prewrites in the sorter then:

    r <= cap < commit_ts of every transaction whose Prewrite is unread

- At turning on, cap = W as the sorter has it then, told before anything that is written later can
  be acked. A commit_ts is fetched after the ack, so it is above all that was allocated by then. The
  batch that could not be handed over entered its Prewrites already: they are open by themselves.
- A record that was read is no longer the cap's business: before the chaser moves on, the indexer
  has told the sorter which Prewrites among them are open (those of a transaction that is over are
  not, in log order nobody can say it better) and which ended. The bound is W at the record's
  place in the log, as after a restart, or the cap, both below its commit_ts.
- The cap moves: to W in log order at what was read last, as after a restart; and to the W that the
  sorter had before a catch-up, once all that was readable after it is read: the rest was acked
  later. So r goes on, even if the chaser never ends.
- At turning off the writer is held, everything is indexed, and the sorter is told; what he writes
  next he enters himself.

A crash of writer, indexer or chaser begins all three anew, from the index's head to the log's end;
then nothing is unread. A fake, a Commit, a Rollback are records like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from itertools import groupby

import structlog

from tidelog import record
from tidelog.actor import Actor, Nothing, Ref
from tidelog.failpoints import hit
from tidelog.ports import Clock
from tidelog_pump.index.believed_file import BelievedFile
from tidelog_pump.index.chase import LOCKED_S, POLL_S, Chase
from tidelog_pump.index.indexer import IndexerMessage, Written, read_back
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import CATCH_UP_SECONDS, CHASED, CHASER, OWN, Gauges
from tidelog_pump.sort.sorter_actor import (
    AwaitResolved,
    Cap,
    CaughtUp,
    Entered,
    Resolved,
    SorterMessage,
)
from tidelog_pump.write.intake import Stored

log = structlog.get_logger()

HANDED = 512
"""Records the indexer is given at once; the loop goes on in between."""


class Handover:
    """The writer's side. He holds `lock` while he writes, the chaser while it ends."""

    def __init__(
        self,
        chase: Chase,
        lock: asyncio.Lock,
        sorter: Ref[SorterMessage],
        indexer: Ref[IndexerMessage],
        *,
        clock: Clock,
        threshold_s: float,
        gauges: Gauges = OWN,
    ) -> None:
        self.lock = lock
        self._gauges = gauges
        self._clock = clock
        self._came_ms = 0
        self._chase = chase
        self._sorter = sorter
        self._indexer = indexer
        self._threshold_s = threshold_s

    def reset(self) -> None:
        """The indexer has read the log to its end."""
        self._chase.reset()

    @property
    def chased(self) -> bool:
        return self._chase.on

    async def enter(self, start_ts: list[int]) -> None:
        """These Prewrites, and whatever else is in the batch, are about to be written."""
        self._came_ms = self._clock.wall_ms()
        self._chase.coming(self._came_ms)
        if start_ts and not self._chase.on:
            await self._sorter.tell(Entered(start_ts))

    async def give(self, placed: Callable[[], list[Stored]], first: Pointer) -> None:
        """A batch is written, its first record at `first`."""
        if self._chase.on:
            self._chase.came(first, self._came_ms)
            return
        message = Written(placed(), self._came_ms)
        if self._indexer.try_tell(message):
            return
        try:
            async with asyncio.timeout(self._threshold_s):
                await self._indexer.tell(message)
        except TimeoutError:
            await self._sorter.tell(Cap())
            hit("pump.chaser.before_turning_on")
            self._chase.turn_on(first, self._came_ms)
            CHASER.labels("turned_on").inc()
            self._gauges.chaser_on.set(1)
            log.warning("the index is slow, the chaser is on", segment=first.fid, at=first.offset)


class Chaser(Actor[Nothing]):
    def __init__(
        self,
        clock: Clock,
        segments: Segments,
        chase: Chase,
        believed: BelievedFile,
        lock: asyncio.Lock,
        sorter: Ref[SorterMessage],
        indexer: Ref[IndexerMessage],
        gauges: Gauges = OWN,
    ) -> None:
        self._clock = clock
        self._believed = believed
        self._gauges = gauges
        self._segments = segments
        self._chase = chase
        self._lock = lock
        self._sorter = sorter
        self._indexer = indexer
        self._handing: asyncio.Task[None] | None = None
        self._rounds = 0
        self._records = 0
        self._tries = 0
        self._given_up = 0

    async def on_start(self) -> None:
        self._gauges.chaser_on.set(0)
        self.spawn(self._run(), "chase")
        self.spawn(self._mark(), "mark")

    async def _run(self) -> None:
        while True:
            await self._clock.sleep(POLL_S)
            if self._chase.on:
                await self._round()

    async def _mark(self) -> None:
        """What `Chase` knows of unread records ends with the process; of this something stays."""
        while True:
            await self._clock.sleep(POLL_S)
            if self._chase.on:
                self._believed.came(self._segments.readable, self._chase.latest_ms)

    async def _round(self) -> None:
        began = self._clock.monotonic()
        await self._catch_up()
        now = self._clock.monotonic()
        self._rounds += 1
        CHASER.labels("catch_up").inc()
        CATCH_UP_SECONDS.observe(now - began)
        if self._chase.may_hold(now - began, now):
            await self._end(now)

    async def _end(self, now_s: float) -> None:
        """One catch-up that holds the writer, and the chaser is off; or it is given up."""
        self._chase.tried(now_s)
        self._tries += 1
        CHASER.labels("recovery").inc()
        async with self._lock:
            try:
                async with asyncio.timeout(LOCKED_S):
                    await self._catch_up(last=True)
            except TimeoutError:
                self._given_up += 1
                CHASER.labels("given_up").inc()
                return
            hit("pump.chaser.before_turning_off")
            self._chase.turn_off(self._segments.readable)
        CHASER.labels("turned_off").inc()
        self._gauges.chaser_on.set(0)
        log.info("the index keeps up again, the chaser is off", records=self._records)

    async def _catch_up(self, *, last: bool = False) -> None:
        """Index what is readable now, from the first unread record on."""
        if self._handing is not None:
            # A try was given up while the indexer had this: it is not handed over twice.
            await asyncio.shield(self._handing)
        resolved: Resolved = await self._sorter.ask(lambda reply: AwaitResolved(-1, 0, reply))
        until = self._segments.readable
        async with aclosing(self._segments.scan(self._chase.unread, until)) as steps:
            async for records in steps:
                for at in range(0, len(records), HANDED):
                    some = records[at : at + HANDED]
                    for wall_ms, of_then in groupby(some, lambda one: self._chase.came_ms(one[0])):
                        await self._hand([read_back(*one) for one in of_then], wall_ms)
        self._chase.read_to(until)
        await self._sorter.tell(CaughtUp(resolved.high_ts, last))

    async def _hand(self, stored: list[Stored], wall_ms: int) -> None:
        self._handing = self.spawn(self._index(stored, wall_ms), "hand over")
        await asyncio.shield(self._handing)
        self._handing = None

    async def _index(self, stored: list[Stored], wall_ms: int) -> None:
        """With normal waiting; the pointer moves once it is indexed and the sorter knows."""
        await self._indexer.ask(lambda reply: Written(stored, wall_ms, reply))
        hit("pump.chaser.handed_over")
        self._chase.read_to(_after(stored[-1]))
        self._records += len(stored)
        CHASED.inc(len(stored))

    def status(self) -> dict[str, object]:
        return {
            "on": self._chase.on,
            "unread": list(self._chase.unread) if self._chase.on else None,
            "catch_ups": self._rounds,
            "records": self._records,
            "tries": self._tries,
            "given_up": self._given_up,
        }


def _after(stored: Stored) -> Pointer:
    place = stored.place
    return Pointer(place.fid, place.offset + record.HEADER_BYTES + place.length)
