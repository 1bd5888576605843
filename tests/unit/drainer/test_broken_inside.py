"""What is broken beside a feed: a replay that ends, a file and a bucket that can't be used."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.integration.drainer.fakes import CLUSTER, FEED
from tests.unit.drainer.test_ddl_orders import AT, UNKNOWN, ddl, order, published, stopped
from tests.unit.drainer.test_rewind import TIMES, behind, read, reading, times
from tests.unit.drainer.test_simulated import txn
from tests.unit.drainer.test_stops import said
from tidelog.change_reader import Change
from tidelog.errors import Conflict, Corrupt, IoFailed, TidelogError, Unavailable
from tidelog.kv import Bucket
from tidelog.rewind import Rewinding
from tidelog.sim.world import World, run
from tidelog.supervisor import Supervisor
from tidelog_drainer.publish.beginning import FEED_FILE
from tidelog_drainer.rewind.rewinder import DIRECTORY, KEPT_FILE


async def asked(world: World, reader: str) -> None:
    """How far its replay is, until that ends."""
    async with asyncio.timeout(60):
        while True:
            await Rewinding(world.ports().bus, CLUSTER, FEED, reader).ask(0)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (IoFailed("the disk of the replay"), "the disk of the replay"),
        (ZeroDivisionError("unforeseen"), "ZeroDivisionError: unforeseen"),
    ],
)
def test_what_ends_a_replay_ends_nothing_else_and_its_reader_hears_it(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    real, failing = Supervisor.run, [error]

    async def fails(tree: Supervisor, stop: asyncio.Event) -> None:
        if tree.name.startswith("rewind-") and failing:
            raise failing.pop()
        await real(tree, stop)

    monkeypatch.setattr(Supervisor, "run", fails)

    async def main(world: World) -> None:
        registry, pump = await behind(world)
        with pytest.raises(TidelogError) as heard:
            await asked(world, "first")
        assert told in str(heard.value)
        node, last = world.node("drainer"), TIMES[-1] + 10
        for one in registry.pumps:
            one.commit([txn(last)] if one is pump else [], last)
        await world.until(lambda: said(node).get("published_ts", 0) >= last, 10, "the feed")
        assert node.service.restarts_total == 0
        # Asked once more, it is filled.
        reader, found = reading(world, name="second"), list[Change]()
        await read(world, reader, last, found)
        assert times(found) == [*TIMES, last]
        await reader.close()

    run(main, 1)


def test_a_feeds_beginning_that_can_t_be_read_ends_the_start_by_name() -> None:
    async def main(world: World) -> None:
        await behind(world)
        node = world.node("drainer")
        await node.stop()
        disk = node.ports().disk
        assert disk.exists(FEED_FILE)
        await disk.write_file(FEED_FILE, b"nothing of ours")
        node.end()
        node.restart()
        await world.until(lambda: bool(node.failures), 60, "the end")
        assert isinstance(node.failures[0], Corrupt)
        assert FEED_FILE in node.failures[0].message
        assert node.failures[0].hint

    run(main, 2)


def test_an_order_into_a_bucket_that_changes_all_the_time_is_refused_for_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World) -> None:
        await stopped(world, [ddl(AT, 3)])
        with monkeypatch.context() as patch:

            async def changed(*_: Any, **__: Any) -> int:
                raise Conflict("somebody wrote it")

            patch.setattr(Bucket, "put", changed)
            with pytest.raises(Unavailable, match="changes all the time") as refused:
                await order(world, "ddl-policy", kind=UNKNOWN, action="forward")
            assert refused.value.hint == "ask again"
        assert said(world.node("drainer"))["published_ts"] == 10, "nothing was decided"
        await order(world, "ddl-policy", kind=UNKNOWN, action="forward")
        await published(world.node("drainer"), world, 30)

    run(main, 3)


def test_a_replay_that_can_t_be_read_ends_the_start_by_name() -> None:
    async def main(world: World) -> None:
        await behind(world)
        await Rewinding(world.ports().bus, CLUSTER, FEED, "late").ask(0)
        node, path = world.node("drainer"), f"{DIRECTORY}/0/{KEPT_FILE}"
        await node.stop()
        disk = node.ports().disk
        await disk.write_file(path, b"nothing of ours")
        node.end()
        node.restart()
        await world.until(lambda: bool(node.failures), 60, "the end")
        assert isinstance(node.failures[0], Corrupt)
        assert node.failures[0].message.startswith(f"{path} can't be read")
        assert "its reader asks again" in node.failures[0].hint

    run(main, 2)
