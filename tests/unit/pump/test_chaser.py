"""The chaser as an actor, between a log and an indexer of the test's (C.5, chaser_test)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.unit.pump.rig import commit, prewrite
from tidelog import record
from tidelog.actor import Actor
from tidelog.errors import TidelogError
from tidelog.sim import World, run
from tidelog.supervisor import Supervisor
from tidelog_pump.index.believed_file import BelievedFile
from tidelog_pump.index.chase import COOLDOWN_S, LOCKED_S, POLL_S, Chase
from tidelog_pump.index.chaser import Chaser, Handover
from tidelog_pump.index.indexer import IndexerMessage, Written, read_back
from tidelog_pump.log.files import name
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments
from tidelog_pump.sort.sorter_actor import (
    AwaitResolved,
    Cap,
    CaughtUp,
    Entered,
    Resolved,
    SorterMessage,
)

THRESHOLD_S = 1.0


class Index(Actor[IndexerMessage]):
    """Takes each message after a while; remembers the start_ts of what it took, in order."""

    max_count = 2

    def __init__(self, world: World) -> None:
        self._world = world
        self.delay_s = 0.0
        self.fails = False
        self.taken: list[int] = []

    async def on_batch(self, batch: list[IndexerMessage]) -> None:
        for message in batch:
            assert isinstance(message, Written)
            if self.delay_s:
                await self._world.sleep(self.delay_s)
            if self.fails and message.chased is not None:
                self.fails = False
                message.chased.fail(TidelogError("this one was not taken"))
                continue
            self.taken += [stored.start_ts for stored in message.stored]
            if message.chased is not None:
                message.chased.set(None)


class Sorter(Actor[SorterMessage]):
    def __init__(self) -> None:
        self.told: list[SorterMessage] = []
        self.before_answer: Callable[[], Awaitable[None]] | None = None
        self.on_caught_up: Callable[[], object] = int

    async def on_batch(self, batch: list[SorterMessage]) -> None:
        for message in batch:
            if isinstance(message, AwaitResolved):
                if self.before_answer is not None:
                    await self.before_answer()
                message.reply.set(Resolved(0, 77, 0))
            else:
                self.told.append(message)
                if isinstance(message, CaughtUp):
                    self.on_caught_up()


class Rig:
    """A writer's hands: `write` does what the writer does with one record."""

    def __init__(self, world: World, segment_bytes: int = 200) -> None:
        ports = world.ports("pump")
        self.world = world
        self.segments = Segments(ports.disk, segment_bytes=segment_bytes, sync=True)
        self.chase = Chase()
        believed = BelievedFile(ports.disk, self.segments, follow=False, skew_ms=0)
        self.lock = asyncio.Lock()
        self.index, self.sorter = Index(world), Sorter()
        self.written: list[int] = []
        self.chasers: list[Chaser] = []
        self.tree = Supervisor("rig")
        sorter = self.tree.actor("sorter", lambda: self.sorter)
        indexer = self.tree.actor("indexer", lambda: self.index)
        self.handover = Handover(
            self.chase, self.lock, sorter, indexer, clock=ports.clock, threshold_s=THRESHOLD_S
        )

        def chaser() -> Chaser:
            made = Chaser(
                ports.clock, self.segments, self.chase, believed, self.lock, sorter, indexer
            )
            self.chasers.append(made)
            return made

        self.tree.actor("chaser", chaser)

    @property
    def status(self) -> dict[str, object]:
        return self.chasers[-1].status()

    async def write(self, count: int = 1) -> float:
        """Returns how long the last one took."""
        took = 0.0
        for _ in range(count):
            start_ts = len(self.written) + 1
            payload = prewrite(start_ts)
            began = self.world.loop.time()
            async with self.lock:
                await self.handover.enter([start_ts])
                framed = record.frame(payload)
                await self.segments.rotate(len(framed))
                at = await self.segments.append([framed], start_ts)
                self.written.append(start_ts)
                stored = [read_back(at, payload)]
                await self.handover.give(partial(list, stored), at)
            took = self.world.loop.time() - began
        return took

    async def turn_on(self) -> None:
        """By an index that takes nothing for a while."""
        self.index.delay_s = 5.0
        while not self.chase.on:
            await self.write()

    async def until(self, condition: Callable[[], bool], within_s: float = 30.0) -> None:
        await self.world.until(condition, within_s, "the chaser")


def play(scenario: Callable[[Rig], Awaitable[None]], seed: int = 1) -> None:
    async def main(world: World) -> None:
        rig = Rig(world)
        await rig.segments.open()
        stop = asyncio.Event()
        task = asyncio.create_task(rig.tree.run(stop))
        await world.until(lambda: rig.tree.ready, 5)
        await scenario(rig)
        stop.set()
        began = world.loop.time()
        await task
        assert world.loop.time() - began < 20.0

    run(main, seed)


def test_it_sleeps_until_it_is_on_and_stops_in_the_middle_of_a_catch_up() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.write(20)
        await rig.world.sleep(10)
        assert rig.status["catch_ups"] == rig.status["records"] == 0
        await rig.turn_on()
        rig.index.delay_s = 3.0
        await rig.write(10)
        await rig.world.sleep(4)
        assert rig.chase.on

    play(scenario)


def test_it_turns_on_after_the_threshold_with_the_first_batch_that_was_not_taken() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.turn_on()
        unread = rig.chase.unread
        steps = [step async for step in rig.segments.scan(unread, rig.segments.readable)]
        assert [read_back(*one).start_ts for step in steps for one in step] == rig.written[-1:]
        await rig.until(lambda: any(isinstance(told, Cap) for told in rig.sorter.told))
        assert sum(isinstance(told, Cap) for told in rig.sorter.told) == 1
        before = len(rig.sorter.told)
        assert await rig.write(50) < 0.1
        assert not [told for told in rig.sorter.told[before:] if isinstance(told, Entered)]

    play(scenario)


def test_it_turns_off_and_nothing_is_missing_doubled_or_out_of_order() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.turn_on()
        await rig.write(300)
        rig.index.delay_s = 0.0
        await rig.until(lambda: not rig.chase.on)
        assert rig.status["tries"] == 1
        assert rig.status["given_up"] == 0
        assert [t for t in rig.sorter.told if isinstance(t, CaughtUp)][-1] == CaughtUp(77, True)
        records = rig.status["records"]
        await rig.write(20)
        await rig.until(lambda: rig.index.taken == rig.written)
        assert rig.status["records"] == records

    play(scenario)


def test_a_slow_catch_up_is_followed_by_no_try() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.turn_on()
        rig.index.delay_s = 1.5
        for _ in range(100):
            await rig.write()
            await rig.world.sleep(0.3)
        assert rig.chase.on
        assert rig.status["catch_ups"] != 0
        assert rig.status["tries"] == 0

    play(scenario)


def test_a_try_that_takes_too_long_is_given_up_and_the_next_comes_after_the_cool_down() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.turn_on()
        rig.index.delay_s = 0.0
        async with rig.lock:
            # It has caught up and waits for the writer, who writes once more into a slow index.
            await rig.until(lambda: rig.status["tries"] == 1)
            payload = prewrite(len(rig.written) + 1)
            await rig.segments.append([record.frame(payload)], 1)
            rig.written.append(len(rig.written) + 1)
            rig.index.delay_s = 4.0
        began = rig.world.loop.time()
        # The lock is fair: we are next after the try.
        async with rig.lock:
            assert rig.world.loop.time() - began == pytest.approx(LOCKED_S, abs=0.05)
        assert rig.chase.on
        assert rig.status["given_up"] == 1
        rig.index.delay_s = 0.0
        await rig.world.sleep(COOLDOWN_S - LOCKED_S - 1.0)
        await rig.write(5)
        assert rig.chase.on
        assert rig.status["tries"] == 1
        await rig.until(lambda: rig.status["tries"] == 2, 2 + 2 * POLL_S)
        await rig.until(lambda: not rig.chase.on)
        # What the try had handed over when it was given up was not handed over again.
        await rig.until(lambda: rig.index.taken == rig.written)

    play(scenario)


def test_a_crash_goes_on_from_the_last_record_that_was_taken() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.turn_on()
        await rig.write(100)
        rig.index.delay_s = 0.01
        await rig.until(lambda: len(rig.index.taken) > 30)
        rig.index.fails = True
        await rig.until(lambda: len(rig.chasers) == 2)
        rig.index.delay_s = 0.0
        await rig.until(lambda: not rig.chase.on)
        assert rig.index.taken == rig.written

    play(scenario)


def test_what_is_not_synced_is_not_read() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.turn_on()
        rig.index.delay_s = 0.0
        await rig.until(lambda: rig.chase.unread == rig.segments.readable or not rig.chase.on)
        if rig.chase.on:
            await rig.until(lambda: not rig.chase.on)
        rig.chase.turn_on(rig.segments.readable)
        before, taken = rig.segments.readable, len(rig.index.taken)
        rig.world.node("pump").disk.faults.sync_s = 30.0
        writing = asyncio.create_task(rig.segments.append([record.frame(commit(1, 2))], 2))
        disk = rig.world.ports("pump").disk
        await rig.until(lambda: disk.size(name(before.fid)) > before.offset)
        looks = 0
        while not writing.done():
            assert (rig.segments.readable, rig.chase.unread) == (before, before)
            await rig.world.sleep(POLL_S / 3)
            looks += 1
        assert looks > 6
        assert rig.segments.readable > before
        await rig.until(lambda: len(rig.index.taken) == taken + 1)

    play(scenario)


def test_what_was_acked_before_the_sorter_said_w_is_read_before_the_cap_moves_there() -> None:
    """Of what is written between the two, the commit_ts may be below that W."""

    async def scenario(rig: Rig) -> None:
        await rig.turn_on()
        rig.index.delay_s = 0.0
        ends: list[Pointer] = []

        async def write_once_more() -> None:
            if not rig.lock.locked():
                start_ts = len(rig.written) + 1
                await rig.segments.append([record.frame(prewrite(start_ts))], start_ts)
                rig.written.append(start_ts)
            ends.append(rig.segments.readable)

        def compare() -> None:
            assert rig.chase.unread >= ends[-1]

        rig.sorter.before_answer, rig.sorter.on_caught_up = write_once_more, compare
        await rig.until(lambda: not rig.chase.on)
        assert len(ends) >= 2, "beside the writer, and holding him"
        assert rig.index.taken == rig.written

    play(scenario)
