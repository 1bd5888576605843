"""The whole Pump with an index that does not keep up: acks, memory, resolved_ts, kills (Done 6)."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, Client, Registry, commit, prewrite, rollback, start
from tidelog import failpoints
from tidelog.errors import TidelogError
from tidelog.messages import TxnStatusReply
from tidelog.sim import World, run
from tidelog.supervisor import STOP_S
from tidelog_proto.transport_pb2 import PulledTxn
from tidelog_pump.config import StorageConfig
from tidelog_pump.write import writer
from tidelog_pump.write.closed import ClosedStarts
from tidelog_pump.write.writer import GROUP_RECORDS

BUFFER = 4096
SLOW = msgspec.structs.replace(
    CONFIG,
    index_buffer_bytes=BUFFER,
    segment_bytes=16 << 10,
    storage=StorageConfig(slow_write_threshold=1.0),
)
EMBEDDED = msgspec.structs.replace(SLOW, oracle="embedded")


class Play:
    """A Pump, who writes to it as an upstream does, and who reads on and on."""

    def __init__(self, world: World, registry: Registry, client: Client) -> None:
        self.world = world
        self.registry = registry
        self.client = client
        self.pump = world.node(NODE)
        self.acked: dict[int, int] = {}
        """start_ts -> commit_ts of what was acked."""
        self.read: list[PulledTxn] = []
        self.position = 0

    def slow(self, on: bool) -> None:
        for stored in self.pump.indexes.values():
            stored.slow = on

    def status(self, actor: str) -> dict[str, Any]:
        found: dict[str, Any] = self.pump.service.status()[actor]
        return found

    async def transaction(self) -> float:
        """Prewrite, then a commit_ts, then Commit: how long both acks took, the slower one."""
        start_ts = self.registry.allocate()
        began = self.world.loop.time()
        await self.client.done(prewrite(start_ts))
        between = self.world.loop.time()
        commit_ts = self.registry.allocate()
        await self.client.done(commit(start_ts, commit_ts))
        self.acked[start_ts] = commit_ts
        return max(between - began, self.world.loop.time() - between)

    async def reading(self) -> None:
        """What a Drainer does: never back, and nothing may turn up below where it is."""
        reader = Client(self.world.ports("reader").bus)
        while True:
            try:
                now = self.registry.allocate()
                frame = await reader.pull(self.position, want_ts=now, feed="reader")
            except TidelogError:
                await asyncio.sleep(0.05)
                continue
            if frame.code:
                assert frame.code in ("ActorStopped", "Unavailable"), frame.message
                await asyncio.sleep(0.05)
                continue
            assert not [t for t in frame.txns if t.commit_ts <= self.position]
            self.read += frame.txns
            self.position = max(self.position, frame.resolved_ts)
            await asyncio.sleep(0.02)

    def all_read(self) -> bool:
        return self.position >= max(self.acked.values(), default=0)

    def check(self) -> None:
        found = [(txn.start_ts, txn.commit_ts) for txn in self.read]
        assert found == sorted(self.acked.items(), key=lambda pair: pair[1])

    async def until_off(self, within_s: float = 90.0) -> None:
        await self.world.until(lambda: not self.status("chaser")["on"], within_s, "the chaser off")


@pytest.mark.parametrize("config", [SLOW, EMBEDDED], ids=["follow", "embedded"])
def test_writers_are_acked_memory_is_bounded_and_nothing_is_missing(config: Any) -> None:
    async def main(world: World) -> None:
        play = Play(world, *await start(world, config))
        reading = asyncio.create_task(play.reading())
        # As many as below: of fewer the slowest one says little of the disk's slow moments.
        usual = [await play.transaction() for _ in range(400)]
        await world.until(play.all_read, 10)
        play.slow(True)
        while not play.status("chaser")["on"]:
            await play.transaction()
        cap = play.status("sorter")["cap"]
        slowest, largest, unread = 0.0, 0, max(play.acked.values())
        opened = play.status("sorter")["open"]
        for _ in range(400):
            slowest = max(slowest, await play.transaction())
            largest = max(largest, play.status("indexer")["mailbox_bytes"])
            assert play.status("sorter")["open"] == opened
            assert play.status("sorter")["resolved_ts"] <= cap < play.registry.allocate()
        assert slowest <= 3 * max(usual)
        assert 0 < largest <= BUFFER + 64 + 128 * GROUP_RECORDS
        assert play.position <= unread
        play.slow(False)
        await play.until_off()
        await world.until(play.all_read, 10)
        play.check()
        records = play.status("chaser")["records"]
        assert records > 800
        for _ in range(20):
            await play.transaction()
        await world.until(play.all_read, 10)
        play.check()
        assert play.status("chaser")["records"] == records
        assert play.status("sorter")["open"] == 0
        assert play.status("sorter")["late_copies"] == 0
        reading.cancel()

    run(main, 31)


def test_resolved_goes_on_while_the_chaser_is_on() -> None:
    """Writers that never pause, an index that is slow now and then: each catch-up moves the cap."""

    async def main(world: World) -> None:
        play = Play(world, *await start(world, EMBEDDED))
        reading = asyncio.create_task(play.reading())
        play.slow(True)
        while not play.status("chaser")["on"]:
            await play.transaction()
        for _ in range(3):
            play.slow(True)
            for _ in range(50):
                await play.transaction()
            before = play.position
            play.slow(False)
            last = max(play.acked.values())
            await world.until(lambda last=last: play.position >= last, 5)  # type: ignore[misc]
            assert play.position > before
        await play.until_off()
        play.check()
        reading.cancel()

    run(main, 32)


def test_copies_rollbacks_and_orphans_among_what_the_chaser_reads() -> None:
    """A Prewrite of a transaction that is over opens nothing, whoever read it."""

    async def main(world: World) -> None:
        play = Play(world, *await start(world, SLOW))
        allocate, client = play.registry.allocate, play.client
        early = [allocate() for _ in range(4)]
        await client.done(*map(prewrite, early))
        await client.done(commit(early[0], allocate()), rollback(early[1]))
        play.slow(True)
        while not play.status("chaser")["on"]:
            await play.transaction()
        gone, back, over, waits = (allocate() for _ in range(4))
        ends = {early[2]: allocate(), over: allocate()}
        await client.done(prewrite(early[0]), prewrite(early[1]), prewrite(early[3]))
        await client.done(commit(early[2], ends[early[2]]), prewrite(early[2]))
        await client.done(prewrite(gone), rollback(gone), prewrite(gone), rollback(back))
        await client.done(prewrite(back), prewrite(over), commit(over, ends[over]), prewrite(over))
        await client.done(commit(over, ends[over]), prewrite(waits), rollback(early[3]))
        play.slow(False)
        await play.until_off()
        assert play.status("sorter")["open"] == play.status("indexer")["open"] == 1
        assert play.status("sorter")["oldest_open"]["start_ts"] == waits
        for again in (gone, back, over, *early):
            await client.done(prewrite(again))
        last = allocate()
        await client.done(commit(waits, last))
        found = {t.start_ts: t.commit_ts for t in await client.pull_up_to(last)}
        assert {ts: found[ts] for ts in ends} == ends
        assert found[waits] == last
        assert play.status("sorter")["open"] == 0

    run(main, 33)


def test_what_was_forgotten_while_the_chaser_was_on_is_asked_of_the_index_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More transactions are over than the writer remembers, and the index does not know them yet:
    what he takes for open then he must not take for open when the index knows better."""
    remembered = 8
    monkeypatch.setattr(writer, "ClosedStarts", partial(ClosedStarts, limit=remembered))

    async def main(world: World) -> None:
        play = Play(world, *await start(world, SLOW))
        play.slow(True)
        while not play.status("chaser")["on"]:
            await play.transaction()
        for _ in range(4 * remembered):
            await play.transaction()
        over = list(play.acked)[-3 * remembered]
        await play.client.done(prewrite(over))
        play.slow(False)
        await play.until_off()
        await play.client.done(prewrite(over))
        await play.transaction()
        await play.client.pull_up_to(max(play.acked.values()))
        assert play.status("sorter")["open"] == 0

    run(main, 36)


def test_an_orphan_that_the_chaser_entered_is_asked_for() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(SLOW, resolve_after_s=1.0)
        play = Play(world, *await start(world, config))
        play.slow(True)
        while not play.status("chaser")["on"]:
            await play.transaction()
        orphan = play.registry.allocate()
        await play.client.done(prewrite(orphan))
        ends = play.registry.allocate()
        play.registry.verdicts[orphan] = TxnStatusReply("committed", ends)
        play.slow(False)
        await play.client.until_state(orphan, "committed")
        assert ends in [t.commit_ts for t in await play.client.pull_up_to(ends)]

    run(main, 34)


@pytest.mark.parametrize("place", ["pump.writer.before_ack", "pump.indexer.before_write"])
def test_a_crash_of_an_actor_while_the_chaser_is_on_begins_anew_with_nothing_unread(
    place: str,
) -> None:
    def crash() -> None:
        failpoints.disarm_all()
        raise TidelogError("a crash that is not fatal")

    async def main(world: World) -> None:
        play = Play(world, *await start(world, SLOW))
        reading = asyncio.create_task(play.reading())
        play.slow(True)
        while not play.status("chaser")["on"]:
            await play.transaction()
        for _ in range(50):
            await play.transaction()
        failpoints.arm(place, crash)
        restarts = play.pump.service.restarts_total
        play.slow(place == "pump.writer.before_ack")
        with contextlib.suppress(TidelogError, AssertionError):
            await play.client.write(prewrite(play.registry.allocate()))
        play.slow(False)
        await world.until(lambda: play.pump.service.restarts_total > restarts, 5, "a crash")
        await play.client.until_online()
        assert not play.status("chaser")["on"]
        assert play.status("sorter")["cap"] is None
        # The Prewrite that met the crash stays open: nobody is past it, everybody up to it.
        await world.until(play.all_read, 10)
        play.check()
        reading.cancel()

    run(main, 35)


def test_a_graceful_stop_waits_for_no_index_and_the_next_start_reads_the_log() -> None:
    async def main(world: World) -> None:
        play = Play(world, *await start(world, SLOW))
        play.slow(True)
        while not play.status("chaser")["on"]:
            await play.transaction()
        for _ in range(50):
            await play.transaction()
        began = world.loop.time()
        await play.pump.stop()
        assert world.loop.time() - began < 2 * STOP_S
        play.slow(False)
        play.pump.restart()
        await play.client.until_online()
        found = await play.client.pull_up_to(max(play.acked.values()))
        assert {t.start_ts: t.commit_ts for t in found} == play.acked

    run(main, 36)


@pytest.mark.parametrize("seed", range(30))
def test_kills_at_any_point_lose_double_and_disorder_nothing(seed: int) -> None:
    """Six lives with an index that is slow now and then; the reader outlives them all."""

    async def main(world: World) -> None:
        rng = world.random("test")
        config = rng.choice((SLOW, EMBEDDED))
        if rng.random() < 0.5:
            hasty = StorageConfig(slow_write_threshold=0.02)
            config = msgspec.structs.replace(config, storage=hasty, index_buffer_bytes=512)
        play = Play(world, *await start(world, config))
        reading = asyncio.create_task(play.reading())
        seen_on = 0
        for life in range(6):
            toggling = asyncio.create_task(_toggle(play, rng.choice((0.05, 0.5, 2.0))))
            for _ in range(rng.randrange(10, 80)):
                await play.transaction()
                seen_on += play.status("chaser")["on"]
                if rng.random() < 0.05:
                    await asyncio.sleep(rng.random() * 2)
            toggling.cancel()
            if life < 5:
                play.pump.kill(restart_after_s=0.1)
                await asyncio.sleep(rng.choice((0.11, 0.5)))
                # One that never catches up with itself keeps the Pump from starting.
                play.slow(False)
                await play.client.until_online()
        play.slow(False)
        await play.until_off()
        await world.until(play.all_read, 20)
        play.check()
        assert not reading.done()
        assert not play.pump.failures
        assert play.status("sorter")["open"] == play.status("indexer")["open"] == 0
        reading.cancel()

    run(main, seed)


async def _toggle(play: Play, about_s: float) -> None:
    rng = play.world.random("toggle")
    while True:
        for on in (True, False):
            play.slow(on)
            await asyncio.sleep(rng.random() * 2 * about_s)
