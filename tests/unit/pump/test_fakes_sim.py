"""Fake binlogs (original.md B.5): when nothing was written for an interval, whatever else is."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, commit, prewrite, start
from tidelog.messages import CLOSING, PAUSED
from tidelog.sim import World, run
from tidelog_pump.config import StorageConfig
from tidelog_pump.log.space import POLL_S

EMBEDDED = msgspec.structs.replace(CONFIG, oracle="embedded")


def status(world: World) -> dict[str, Any]:
    shown: dict[str, Any] = world.node(NODE).service.status()
    return shown


@pytest.mark.parametrize("interval", [3.0, 0.5, 20.0])
def test_one_after_each_interval_without_a_write(interval: float) -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(EMBEDDED, gen_binlog_interval=interval)
        await start(world, config)
        before = status(world)["faker"]["written"]
        await asyncio.sleep(10.5 * interval)
        # The oracle's answer and the sync take a moment of each.
        assert 9 <= status(world)["faker"]["written"] - before <= 11

    run(main, 1)


def test_none_while_something_is_written() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, EMBEDDED)
        await asyncio.sleep(3.5)
        before = status(world)["faker"]["written"]
        for _ in range(20):
            start_ts = registry.allocate()
            await client.done(prewrite(start_ts), commit(start_ts, registry.allocate()))
            await asyncio.sleep(1)
        assert status(world)["faker"]["written"] == before
        await asyncio.sleep(7)
        assert status(world)["faker"]["written"] > before

    run(main, 2)


def test_none_under_follow() -> None:
    async def main(world: World) -> None:
        await start(world)
        end = status(world)["writer"]["offset"]
        await asyncio.sleep(60)
        assert "faker" not in status(world)
        assert status(world)["writer"]["offset"] == end

    run(main, 3)


def test_they_go_on_when_prewrites_are_refused() -> None:
    async def main(world: World) -> None:
        storage = StorageConfig(stop_write_at_available_space="1 GiB")
        registry, client = await start(world, msgspec.structs.replace(EMBEDDED, storage=storage))
        disk = world.node(NODE).disk
        disk.faults.capacity = disk.used() + (1 << 29)
        await asyncio.sleep(POLL_S + 1)
        assert (await client.write(prewrite(registry.allocate())))[0].code == "DiskFull"
        for state in (PAUSED, CLOSING):
            registry.state = state
            await asyncio.sleep(3)
            assert status(world)["writer"]["state"] == state
            before = (await client.pull(0, wait_ms=0)).resolved_ts
            written = status(world)["faker"]["written"]
            await asyncio.sleep(10)
            assert status(world)["faker"]["written"] >= written + 2
            assert status(world)["faker"]["last_error"] == ""
            assert (await client.pull(0, wait_ms=0)).resolved_ts > before

    run(main, 4)


def test_they_come_back_when_the_oracle_does() -> None:
    async def main(world: World) -> None:
        registry, _ = await start(world, EMBEDDED)
        registry.oracle_answers = False
        await asyncio.sleep(20)
        shown = status(world)["faker"]
        assert shown["last_error"]
        registry.oracle_answers = True
        await asyncio.sleep(10)
        again = status(world)["faker"]
        assert again["written"] > shown["written"]
        assert again["last_error"] == ""

    run(main, 5)
