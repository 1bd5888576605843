"""What a Pump tells `tidelog status` of the worth of its acks and of what can be read of it."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, commit, prewrite, start
from tidelog.sim import World, run
from tidelog.timestamps import compose
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


def test_a_damaged_segment_is_told_by_its_name() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, SMALL)
        for _ in range(4):
            one = registry.allocate()
            await client.done(prewrite(one, b"x" * 3000), commit(one, registry.allocate()))
        pump = world.node(NODE)
        await pump.stop()
        disk = pump.ports().disk
        data = disk.read_file("value/000001.vlog")
        await disk.write_file("value/000001.vlog", data[:-1] + bytes([data[-1] ^ 1]))
        pump.restart()
        beats = len(registry.beats)
        await world.until(lambda: len(registry.beats) > beats, 20)
        told = registry.beats[-1].status.detail["damaged"]
        assert "value/000001.vlog: its footer is damaged" in told

    run(main, 3)
