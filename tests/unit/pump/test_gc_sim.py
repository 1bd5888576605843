"""Retention of a whole Pump on virtual time: under load, over crashes, an index built again."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec
import pytest

from tests.unit.pump.gc_rig import (
    ON_DEMAND,
    QUICK,
    Drainer,
    Load,
    purged,
    restart_without_index,
    segments,
    status,
)
from tests.unit.pump.rig import (
    CONFIG,
    NODE,
    commit,
    prewrite,
    rollback,
    start,
    ts_now,
)
from tidelog import failpoints
from tidelog.errors import TidelogError
from tidelog.messages import Consumer
from tidelog.sim import World, run
from tidelog.sim.disk import DiskFaults
from tidelog.timestamps import TS_MAX, compose
from tidelog_pump.config import StorageConfig


def test_it_collects_under_load_and_a_drainer_that_keeps_up_gets_everything() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, QUICK)
        registry.safe_point = TS_MAX
        load, drainer = Load(world, client), Drainer(client)
        reading = asyncio.create_task(drainer.run())
        await load.run(120)
        assert len(segments(world)) < 25  # 20 s of 2 KiB each second, and one interval
        gc = status(world, "gc")
        assert gc["first_segment"] > 40
        await world.until(lambda: drainer.position >= load.committed[-1], 10)
        reading.cancel()
        assert drainer.got == load.committed
        assert str(gc["gc_ts"]) in await purged(client, 0)
        assert str(gc["gc_ts"]) in await purged(client, gc["gc_ts"] - 1)
        rest = await client.pull_up_to(load.committed[-1], gc["gc_ts"], feed="g")
        assert [t.commit_ts for t in rest] == [ts for ts in load.committed if ts > gc["gc_ts"]]
        assert len(rest) < 150

    run(main, 1)


@pytest.mark.parametrize("seed", range(4))
def test_an_index_built_again_after_it_finds_no_loss_and_nothing_open(seed: int) -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        random = world.random("load")
        ended: list[int] = []
        for _ in range(150):
            # Their ends in other segments than their beginnings, some sent once more after it.
            start_ts = ts_now(world)
            await client.done(prewrite(start_ts))
            await asyncio.sleep(random.random() * 0.2)
            if random.random() < 0.5:
                await load.one()
            roll = random.random() < 0.2
            await client.done(rollback(start_ts) if roll else commit(start_ts, ts_now(world) + 2))
            ended.append(start_ts)
            if random.random() < 0.3:
                await client.done(prewrite(random.choice(ended[-3:])))
        await load.run(21, pause_s=1)
        answer = await client.control("gc")
        assert answer["segments"] > 5
        assert answer["purge_ts"]
        before = await client.pull(answer["purge_ts"])
        await restart_without_index(world, client)
        indexer = status(world, "indexer")
        assert (indexer["unpaired"], indexer["open"]) == (0, 0)
        after = await client.pull_up_to(load.committed[-1], answer["purge_ts"], feed="new")
        assert [t.commit_ts for t in after] == [t.commit_ts for t in before.txns]
        await purged(client, answer["purge_ts"] - 1)

    run(main, seed)


@pytest.mark.parametrize("index_lost", [False, True])
@pytest.mark.parametrize("removed", range(4))
def test_a_crash_in_the_middle_is_finished_at_the_next_start(
    removed: int, *, index_lost: bool
) -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        await load.run(30)
        await asyncio.sleep(20)
        node = world.node(NODE)
        node.disk.faults.write_s = 0.1
        before = segments(world)
        if removed == 0:
            failpoints.arm("pump.gc.before_removal", lambda: node.kill(restart_after_s=0.5))
        client.timeout_s = 1.0
        asked = asyncio.create_task(client.control("gc"))
        if removed:
            await world.until(lambda: len(segments(world)) <= len(before) - removed, 5)
            node.kill(restart_after_s=0.5)
        with pytest.raises(TidelogError):
            await asked
        if index_lost:
            node.indexes.clear()
        client.timeout_s = 5.0
        await client.until_online()
        left = segments(world)
        gc = status(world, "gc")
        assert gc["gc_ts"] > 0
        assert int(left[0][:6]) == gc["first_segment"]
        assert status(world, "indexer")["unpaired"] == 0
        await purged(client, gc["gc_ts"] - 1)
        rest = await client.pull_up_to(load.committed[-1], gc["gc_ts"])
        assert [t.commit_ts for t in rest] == [ts for ts in load.committed if ts > gc["gc_ts"]]
        assert (await client.control("gc"))["purge_ts"] == gc["gc_ts"]

    try:
        run(main, removed)
    finally:
        failpoints.disarm_all()


def test_who_needs_it_holds_it() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        load = Load(world, client)
        await load.run(10)
        middle = load.committed[-1]
        await load.run(10)
        await client.pull(load.committed[-1], wait_ms=0)
        await asyncio.sleep(21)
        # Nobody says who reads; a consumer is behind; a feed was never asked for more here.
        client.timeout_s = 10
        assert (await client.control("gc"))["purge_ts"] == 0
        registry.safe_point = middle
        registry.consumers = [Consumer("a1", "f", middle)]
        answer = await client.control("gc")
        assert load.committed[0] < answer["purge_ts"] <= middle
        assert answer["stays"].endswith(f"by a reader at {middle}: consumer a1 of feed f")
        await client.pull(answer["purge_ts"], wait_ms=0, feed="slow")
        registry.safe_point, registry.consumers = TS_MAX, []
        stays = await client.control("gc")
        assert stays["segments"] == 0
        assert stays["stays"].endswith(f"by a reader at {answer['purge_ts']}: feed slow")
        await client.pull(load.committed[-1], wait_ms=0, feed="slow")
        assert (await client.control("gc"))["purge_ts"] > middle

    run(main, 2)


def test_an_open_prewrite_and_the_rows_of_a_later_commit_stay() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        await load.run(3)
        long = ts_now(world)
        await client.done(prewrite(long, b"a long one"))
        place = await client.control("inspect", long)
        await load.run(10)
        await asyncio.sleep(30)
        answer = await client.control("gc")
        assert status(world, "gc")["first_segment"] <= place["segment"]
        assert "open" in answer["stays"]
        end = ts_now(world)
        await client.done(commit(long, end))
        await client.until_state(long, "committed")
        assert status(world, "gc")["first_segment"] <= place["segment"]
        await client.control("gc")
        found = await client.pull_up_to(end, load.committed[-1])
        assert [t.start_ts for t in found] == [long]
        assert b"a long one" in found[0].payload
        await load.run(22, pause_s=2)
        await client.pull(load.committed[-1], wait_ms=0)
        await client.control("gc")
        assert status(world, "gc")["first_segment"] > place["segment"]

    run(main, 3)


def test_it_makes_room_for_prewrites_again() -> None:
    async def main(world: World) -> None:
        storage = StorageConfig(stop_write_at_available_space=20 << 10)
        config = msgspec.structs.replace(ON_DEMAND, storage=storage)
        world.node(NODE, disk=DiskFaults(capacity=60 << 10))
        registry, client = await start(world, config)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        refused = ""
        for _ in range(100):
            start_ts = ts_now(world)
            refused = (await client.write(prewrite(start_ts, b"r" * 900)))[0].code
            if refused:
                break
            await client.done(commit(start_ts, start_ts + 1))
            await asyncio.sleep(0.1)
        assert refused == "DiskFull"
        await asyncio.sleep(25)
        assert (await client.control("gc"))["segments"] > 5
        await asyncio.sleep(3)
        await load.one(b"r" * 900)

    run(main, 5)


def test_a_full_disk_keeps_the_index_from_being_swept_and_nothing_else() -> None:
    """RocksDB would have to log it, and ends the process when that finds no room."""

    async def main(world: World) -> None:
        storage = StorageConfig(stop_write_at_available_space=1 << 10)
        config = msgspec.structs.replace(ON_DEMAND, storage=storage)
        world.node(NODE, disk=DiskFaults(capacity=1 << 20))  # and a reserve of 1 KiB
        registry, client = await start(world, config)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        await load.run(20)
        await asyncio.sleep(25)
        (index,) = world.node(NODE).indexes.values()
        before, disk = len(index.entries), world.node(NODE).disk
        disk.faults.capacity = disk.used() + (100 << 10)
        assert (await client.control("gc"))["segments"] > 5
        await asyncio.sleep(5)
        assert len(index.entries) >= before
        disk.faults.capacity = 1 << 20
        await load.one()
        await client.control("gc")
        await world.until(lambda: len(index.entries) < before // 2, 10)

    run(main, 6)


def test_a_disk_that_is_full_again_at_once_mends_itself_again() -> None:
    """The reserve that a gc took is there again with the room that it made."""

    async def main(world: World) -> None:
        storage = StorageConfig(stop_write_at_available_space=1 << 10)
        config = msgspec.structs.replace(ON_DEMAND, storage=storage)
        world.node(NODE, disk=DiskFaults(capacity=1 << 20))
        registry, client = await start(world, config)
        registry.safe_point = TS_MAX
        load, disk = Load(world, client), world.node(NODE).disk
        for _ in range(3):
            await load.run(20)
            await asyncio.sleep(25)
            disk.faults.capacity = disk.used()
            assert (await client.control("gc"))["segments"] > 5
            assert status(world, "identity")["reserve"]
            disk.faults.capacity = 1 << 20

    run(main, 7)


def test_a_purge_point_outlives_an_empty_log() -> None:
    """All that is left is the segment being written: W begins at the purge point."""

    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        await load.run(20)
        rotated = len(segments(world))
        while len(segments(world)) == rotated:
            await load.one()
        await asyncio.sleep(25)
        point = (await client.control("gc"))["purge_ts"]
        await restart_without_index(world, client)
        frame = await client.pull(point, wait_ms=0)
        assert frame.resolved_ts >= point
        assert compose(0) < point

    run(main, 7)


def test_a_stop_in_the_middle_of_a_run_is_a_clean_one() -> None:
    async def main(world: World) -> None:
        # Nobody says who reads: each run waits for an answer, longer than the interval.
        config = msgspec.structs.replace(QUICK, gc_interval="100ms")
        _, client = await start(world, config)
        node = world.node(NODE)
        for _ in range(5):
            await asyncio.sleep(1)
            await node.stop()
            node.restart()
            await client.until_online()
        assert not node.failures

    run(main, 8)


@pytest.mark.parametrize("oracle", ["embedded", "follow"])
def test_a_clock_that_jumps_ahead_deletes_nothing(oracle: Literal["embedded", "follow"]) -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, oracle=oracle, segment_bytes=2 << 10)
        registry, client = await start(world, config)
        load = Load(world, client)
        await load.run(10)
        registry.safe_point = load.committed[3]
        stuck = ts_now(world)
        await client.done(prewrite(stuck))
        await load.run(10)
        before = segments(world)
        skew_ms = 15 * 86_400_000
        world.node(NODE).clock.skew_ms += skew_ms
        answer = await client.control("gc")
        assert (answer["purge_ts"], answer["lost"], segments(world)) == (0, [], before)
        assert "clock is 12960" in status(world, "gc")["clock"]
        beats = len(registry.beats)
        await world.until(lambda: len(registry.beats) > beats + 1, 10)
        assert "clock is 12960" in registry.beats[-1].status.detail["retention"]
        world.node(NODE).clock.skew_ms -= skew_ms
        await client.control("gc")
        assert not status(world, "gc")["clock"]
        assert not (await client.pull(load.committed[3], wait_ms=0)).code

    run(main, 9)


def test_age_goes_on_while_nothing_is_written_and_nobody_tells_the_time() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        registry.safe_point = TS_MAX
        load = Load(world, client)
        await load.run(10)
        await client.pull(load.committed[-1], wait_ms=0)
        await client.control("gc")
        await asyncio.sleep(3600)
        gc = status(world, "gc")
        assert not gc["clock"]
        assert gc["first_segment"] == int(segments(world)[-1][:6]) > 5

    run(main, 10)
