"""The small files beside the log: damaged ones, and a disk without any room for them."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.pump.gc_rig import ON_DEMAND, Load, status
from tests.unit.pump.rig import (
    CONFIG,
    NODE,
    Client,
    Registry,
    commit,
    prewrite,
    rollback,
    start,
    ts_now,
)
from tidelog.errors import Corrupt
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX
from tidelog_pump.config import StorageConfig
from tidelog_pump.log.space import POLL_S

FILES = ["feeds.json", "readers.json", "late.json", "purged.json", ".node"]


@pytest.mark.parametrize("data", [b"{garb", b"[]", b'{"f":', b'{"f": "x"}', b"\xff"])
@pytest.mark.parametrize(
    "name", ["feeds.json", "readers.json", "late.json", "purged.json", ".node"]
)
def test_a_damaged_one_ends_the_start_by_its_name(name: str, data: bytes) -> None:
    """Never as if there was nothing in it: retention goes by it, and who may read on."""
    if name in ("late.json", "purged.json") and data == b'{"f": "x"}':
        return  # all of a record's fields may be missing: as older versions wrote them

    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        await client.pull(0, wait_ms=0)
        node = world.node(NODE)
        await node.stop()
        await node.ports().disk.write_file(name, data)
        node.restart()
        await asyncio.sleep(2)
        assert node.failures
        for error in node.failures:
            assert isinstance(error, Corrupt)
            assert error.message.startswith(name)
            assert error.hint

    run(main, 1)


def test_a_new_reader_on_a_full_disk_is_served_and_saved_later() -> None:
    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        node = world.node(NODE)
        await client.pull(0, wait_ms=0, feed="old")
        await asyncio.sleep(2)
        node.disk.full = True
        for _ in range(10):
            frame = await client.pull(0, wait_ms=0, feed="new")
            assert not frame.code
            await asyncio.sleep(1)
        assert "no space" in status(world, "puller")["unsaved"]
        node.disk.full = False
        await asyncio.sleep(2)
        assert not status(world, "puller")["unsaved"]
        for name in ("feeds.json", "readers.json"):
            assert b"new" in node.ports().disk.read_file(name)
        assert (node.failures, node.starts) == ([], 1)

    run(main, 2)


async def filled(world: World) -> tuple[Registry, Client, Load]:
    """A Pump whose disk was filled to the last byte by somebody else."""
    storage = StorageConfig(stop_write_at_available_space=8 << 10)
    registry, client = await start(world, msgspec.structs.replace(ON_DEMAND, storage=storage))
    registry.safe_point = TS_MAX
    load = Load(world, client)
    await load.run(20)
    await client.pull(load.committed[-1], wait_ms=0)
    world.node(NODE).disk.full = True
    assert world.node(NODE).ports().disk.free_bytes() == 0
    await asyncio.sleep(POLL_S + 1)
    return registry, client, load


@pytest.mark.parametrize("restarted", [False, True])
def test_a_full_disk_mends_itself_by_gc(*, restarted: bool) -> None:
    async def main(world: World) -> None:
        registry, client, load = await filled(world)
        node = world.node(NODE)
        # Whatever comes is refused for sure, and what is there is read.
        late = ts_now(world)
        for payload in (prewrite(late), commit(late, late + 1), rollback(late + 2)):
            refused = (await client.write(payload))[0]
            assert (refused.code, refused.definite) == ("DiskFull", True)
        frame = await client.pull(load.committed[0], feed="new")
        assert len(frame.txns) == len(load.committed) - 1
        if restarted:
            for _ in range(3):
                await node.stop()
                beats = len(registry.beats)
                node.restart()
                await world.until(lambda: len(registry.beats) > beats, 10)  # noqa: B023
                found = await client.pull_up_to(load.committed[-1], load.committed[0], feed="g")
                assert len(found) == len(frame.txns)
        await client.pull(load.committed[-1], feed="new", wait_ms=0)
        await client.pull(load.committed[-1], feed="g", wait_ms=0)
        await asyncio.sleep(25)
        assert status(world, "identity")["reserve"] == (0 if restarted else 1 << 20)
        answer = await client.control("gc")
        assert answer["segments"] > 5
        await world.until(lambda: not status(world, "writer")["disk_full"], 10)
        await load.one()
        assert (node.failures, node.starts) == ([], 4 if restarted else 1)
        node.disk.full = False
        await world.until(lambda: bool(status(world, "identity")["reserve"]), 10)

    run(main, 3)


def test_a_late_copy_is_kept_and_accepted_on_a_full_disk() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, CONFIG)
        registry.pumps = [NODE]
        load = Load(world, client)
        await load.run(2)
        await client.pull(load.committed[-1], wait_ms=0)
        late = load.committed[0]
        await client.done(prewrite(late), commit(late, late + 5))
        world.node(NODE).disk.full = True
        await world.until(lambda: bool(status(world, "verifier")["missing"]), 30)
        assert not status(world, "identity")["reserve"]
        assert "error" not in await client.control("accept", late)
        assert not world.node(NODE).failures

    run(main, 4)


def test_an_embedded_pump_lives_on_a_full_disk() -> None:
    """Its fakes are refused, and resolved_ts goes on."""

    async def main(world: World) -> None:
        _, client = await start(world, msgspec.structs.replace(CONFIG, oracle="embedded"))
        await asyncio.sleep(10)
        world.node(NODE).disk.full = True
        before = (await client.pull(0, wait_ms=0)).resolved_ts
        await asyncio.sleep(60)
        assert "no space" in status(world, "faker")["last_error"]
        assert (await client.pull(0, wait_ms=0)).resolved_ts > before
        assert not world.node(NODE).failures

    run(main, 5)
