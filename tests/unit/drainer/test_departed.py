"""A Pump that left with what a feed has not read is not passed by without a word."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.integration.drainer.fakes import FEED, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, everything, said
from tidelog.messages import DRAINER_CONSUMER, Consumer
from tidelog.sim.world import World, run
from tidelog_drainer.service import build

ALL = [txn(ts) for ts in range(10, 50, 2)]
LAST = ALL[-1][0]


async def two_pumps_of_which_one_left(world: World, **tombstone: Any) -> FakeRegistry:
    """Each held half, and whoever was registered had read both."""
    world.open_ddl_history = lambda url, bus: OneTable()
    registry = FakeRegistry(world.ports().bus)
    await registry.start()
    p1, p2 = await registry.pump("p1"), await registry.pump("p2")
    p1.commit([*DDLS, *ALL[::2]], 60)
    p2.commit(ALL[1::2], 60)
    await registry.record("p2", "offline", high_ts=LAST, **tombstone)
    registry.pumps.remove(p2)
    await p2.close()
    return registry


@pytest.mark.parametrize("replaced", [False, True])
def test_a_feed_that_is_read_from_before_it_left_stops(replaced: bool) -> None:
    """Also where another Pump has its name by now: that has a tombstone no more."""

    async def main(world: World) -> None:
        registry = await two_pumps_of_which_one_left(world)
        if replaced:
            await registry.pump("p2")
            await registry.record("p2", left_ts=LAST)
        node = world.node("drainer")
        node.start(build, CONFIG)
        await world.until(lambda: bool(said(node).get("error")), 60, "the stop")
        error = str(said(node)["error"])
        assert "p2 went offline with transactions up to 48" in error
        assert "feed shop has read up to 0" in error
        assert "--accept-loss" in error
        assert await everything(world) == []

    run(main, 1)


def test_an_operator_may_go_on_with_what_is_left() -> None:
    async def main(world: World) -> None:
        await two_pumps_of_which_one_left(world)
        node = world.node("drainer")
        node.start(build, msgspec.structs.replace(CONFIG, accept_loss=True))
        await world.until(lambda: said(node).get("published_ts", 0) >= LAST, 60, "the feed")
        assert await everything(world) == [2, 4, *(one[0] for one in ALL[::2])]

    run(main, 1)


@pytest.mark.parametrize(
    ("reader", "goes_on"),
    [("applier", True), (DRAINER_CONSUMER, True), ("one that begins again", False)],
)
def test_a_stream_that_lost_its_end_goes_on_for_readers_who_had_it(
    reader: str, goes_on: bool
) -> None:
    """All that were registered had read the Pump that left: what the stream lost, they have."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry = FakeRegistry(world.ports().bus)
        await registry.start()
        p1, p2 = await registry.pump("p1"), await registry.pump("p2")
        p1.commit([*DDLS, *ALL[:10:2]], 29)
        p2.commit(ALL[1:10:2], 29)
        node = world.node("drainer")
        node.start(build, CONFIG)
        await world.until(lambda: said(node).get("published_ts", 0) >= 28, 60, "the feed")
        node.kill()
        position = LAST if goes_on else 20
        registry.consumers = [Consumer(reader, FEED, position)]
        await registry.record("p2", "offline", high_ts=LAST)
        registry.pumps.remove(p2)
        await p2.close()
        p1.commit(ALL[10::2], 60)
        node.restart()
        if goes_on:
            await world.until(lambda: said(node).get("published_ts", 0) >= LAST - 2, 60, "the rest")
        else:
            await world.until(lambda: bool(said(node).get("error")), 60, "the stop")
            assert "p2 went offline with transactions up to 48" in str(said(node)["error"])

    run(main, 1)


def test_what_an_operator_gave_up_for_lost_is_not_asked_for_again() -> None:
    async def main(world: World) -> None:
        await two_pumps_of_which_one_left(world, read_ts=0)
        node = world.node("drainer")
        node.start(build, CONFIG)
        await world.until(lambda: said(node).get("published_ts", 0) >= LAST - 2, 60, "the feed")

    run(main, 1)


def test_an_entry_that_can_not_be_read_is_waited_for() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry = FakeRegistry(world.ports().bus)
        await registry.start()
        (await registry.pump("p1")).commit([*DDLS, *ALL], 60)
        await registry.bucket.put("p9", b"{")
        node = world.node("drainer")
        node.start(build, CONFIG)
        await world.until(lambda: "can't be read" in str(said(node)), 60, "what is waited for")
        await registry.bucket.delete("p9")
        await world.until(lambda: said(node).get("published_ts", 0) >= LAST, 60, "the feed")

    run(main, 1)
