"""The small files beside the log: damaged ones, and a disk without any room for them."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.pump.rig import CONFIG, NODE, start
from tests.unit.pump.test_gc_sim import status
from tidelog.errors import Corrupt
from tidelog.sim import World, run

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
