"""What a Pump tells `tidelog status` of the worth of its acks and of what can be read of it."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, commit, prewrite, start
from tidelog.sim import World, run
from tidelog.timestamps import compose
from tidelog_pump.announce import TOLD, damage
from tidelog_pump.config import StorageConfig

SMALL = msgspec.structs.replace(CONFIG, segment_bytes=4096)


@pytest.mark.parametrize("sync_log", [True, False])
def test_a_log_that_is_not_synced_is_told_with_each_beat(*, sync_log: bool) -> None:
    async def main(world: World) -> None:
        storage = StorageConfig(sync_log=sync_log)
        registry, _ = await start(world, msgspec.structs.replace(CONFIG, storage=storage))
        await world.until(lambda: len(registry.beats) > 3, 20)
        assert [("sync_log" in beat.status.detail) for beat in registry.beats] == [
            not sync_log
        ] * len(registry.beats)

    run(main, 1)


def test_a_commit_that_no_reader_gets_for_long_is_told() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, oracle="embedded")
        registry, client = await start(world, config)
        one = registry.allocate()
        await client.done(prewrite(one), commit(one, registry.allocate()))
        await world.until(lambda: len(registry.beats) > 3, 20)
        assert not registry.beats[-1].status.detail
        far = registry.allocate() + compose(3_600_000)
        two = registry.allocate()
        await client.done(prewrite(two), commit(two, far))
        await world.until(lambda: "far_commit" in registry.beats[-1].status.detail, 20)
        told = registry.beats[-1].status.detail["far_commit"]
        assert str(far) in told
        assert " 3600 s above" in told or " 3599 s above" in told

    run(main, 2)


@pytest.mark.parametrize("damaged", [(1,), (1, 2)])
def test_each_damaged_segment_is_told_by_its_name(damaged: tuple[int, ...]) -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, SMALL)
        for _ in range(4):
            one = registry.allocate()
            await client.done(prewrite(one, b"x" * 3000), commit(one, registry.allocate()))
        pump = world.node(NODE)
        await pump.stop()
        disk = pump.ports().disk
        names = [f"value/{number:06}.vlog" for number in damaged]
        for name in names:
            data = disk.read_file(name)
            await disk.write_file(name, data[:-1] + bytes([data[-1] ^ 1]))
        pump.restart()
        beats = len(registry.beats)
        await world.until(lambda: len(registry.beats) > beats, 20)
        told = registry.beats[-1].status.detail["damaged"]
        for name in names:
            assert f"{name}: its footer is damaged" in told
        assert f"`tidelog inspect {names[0]}` shows what is left" in told

    run(main, 3)


def test_of_many_damaged_segments_the_first_are_named() -> None:
    told = damage({f"s{n}": "gone" for n in range(TOLD + 3)})
    assert told.startswith("s0: gone; s1: gone; ")
    assert "; and 3 more, see damaged_segments in /status; readers of them are stopped" in told
    assert f"s{TOLD}" not in told
