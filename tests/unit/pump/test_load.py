"""The score a Pump tells: free space, weighed by how the disk bears what is written."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, commit, prewrite, start, ts_now
from tidelog.sim import World, run
from tidelog.sim.disk import DiskFaults
from tidelog_pump.config import StorageConfig
from tidelog_pump.write.load import BEST, MEMORY_S, SLOW_S, Load, score


def test_an_idle_pump_on_an_empty_disk_has_the_best_score() -> None:
    assert score(1.0, 0.0, 0.0) == BEST


@pytest.mark.parametrize("room", [0.0, -0.1])
def test_one_that_refuses_prewrites_has_none(room: float) -> None:
    assert score(room, 0.0, 0.0) == 0


def test_one_that_takes_them_has_at_least_one() -> None:
    assert score(1e-9, 1.0, 60.0) == 1


def test_the_score_goes_with_free_space() -> None:
    assert [score(room, 0.0, 0.0) for room in (0.25, 0.5, 0.75, 2.0)] == [25, 50, 75, BEST]


def test_a_busy_or_slow_disk_counts_half() -> None:
    assert score(1.0, 1.0, 0.0) == score(1.0, 0.0, SLOW_S) == BEST // 2
    assert score(1.0, 1.0, SLOW_S) == BEST // 4


def loaded(writes: int, write_s: float, gap_s: float) -> tuple[Load, float]:
    load, now = Load(), 1000.0
    load.room = 1.0
    for _ in range(writes):
        load.wrote(now, now + write_s)
        now += write_s + gap_s
    return load, now


def test_a_disk_that_is_always_busy_with_short_writes_counts_half() -> None:
    load, now = loaded(200_000, 0.001, 0.0)
    assert 45 <= load.score(now) <= 52


def test_a_few_slow_writes_are_felt_and_forgotten() -> None:
    load, now = loaded(3, 0.3, 1.0)
    assert load.score(now) < 25
    assert load.score(now + 10 * MEMORY_S) == BEST


def test_fast_writes_now_and_then_cost_nothing() -> None:
    load, now = loaded(100, 0.0005, 0.5)
    assert load.score(now) == 99


def test_a_pump_tells_its_score_and_labels() -> None:
    async def main(world: World) -> None:
        storage = StorageConfig(stop_write_at_available_space=1 << 30)
        config = msgspec.structs.replace(CONFIG, storage=storage, labels={"zone": "a"})
        disk = world.node(NODE, disk=DiskFaults(capacity=4 << 30)).disk
        registry, client = await start(world, config)
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 1))
        await world.sleep(6)
        assert registry.beats[-1].status.label == {"zone": "a"}
        assert registry.beats[-1].status.score >= 90
        disk.faults.capacity = disk.used() + (1 << 29)
        await world.sleep(6)
        assert registry.beats[-1].status.score == 0

    run(main, 1)
