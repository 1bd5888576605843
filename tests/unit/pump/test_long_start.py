"""A start that takes long says so, and ends when it is told to."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
import structlog.testing

from tests.unit.pump.rig import CONFIG, NODE, commit, prewrite, start, ts_now
from tidelog.sim import World, run
from tidelog_pump.index import patience
from tidelog_pump.parts import INDEX

LARGE = msgspec.structs.replace(CONFIG, segment_bytes=2 << 20)


def told(logs: Any, event: str) -> list[Any]:
    return [line for line in logs if line["event"] == event]


def test_an_index_that_never_keeps_up_is_named_and_a_stop_does_not_wait_for_it() -> None:
    async def main(world: World) -> None:
        _, client = await start(world, CONFIG)
        base = ts_now(world)
        await client.done(prewrite(base, b"x" * 2000))
        await client.until_state(base, "open")
        pump = world.node(NODE)
        await pump.stop()
        pump.indexes[INDEX].slow = True
        with structlog.testing.capture_logs() as logs:
            pump.restart()
            await asyncio.sleep(16)
            shown = pump.service.status()["indexer"]
            began = world.loop.time()
            await pump.stop()
            assert world.loop.time() - began < 1
        lines = told(logs, "the index does not keep up, waiting for it")
        assert [round(line["seconds"]) for line in lines] == [5, 10, 15]
        assert shown["starting"]
        assert shown["waiting_for_index_s"] > 15
        assert pump.failures == []
        pump.indexes[INDEX].slow = False
        pump.restart()
        await client.until_online()
        await client.done(commit(base, base + 1))
        assert [t.start_ts for t in await client.pull_up_to(base + 1)] == [base]

    run(main, 1)


def test_reading_the_log_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        _, client = await start(world, LARGE)
        base = ts_now(world)
        for n in range(40):
            await client.done(prewrite(base + n, b"x" * 200_000))
        pump = world.node(NODE)
        await pump.stop()
        pump.ports().drop_index(INDEX)
        monkeypatch.setattr(patience, "TOLD_S", 0.0)
        with structlog.testing.capture_logs() as logs:
            pump.restart()
            await client.until_online()
        lines = told(logs, "reading the log")
        left = [line["bytes_left"] for line in lines]
        assert len(lines) >= 8
        assert left == sorted(left, reverse=True)
        assert 7_000_000 < left[0] < 8_000_000
        assert left[-1] < 400_000
        assert [line["percent"] for line in lines] == sorted(line["percent"] for line in lines)
        assert (lines[0]["percent"] < 20, lines[-1]["percent"] > 95) == (True, True)
        assert lines[-1]["records"] == 40

    run(main, 2)
