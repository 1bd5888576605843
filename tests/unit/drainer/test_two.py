"""Two Drainers of one feed: one stops by name, and the stream stays in order."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.integration.drainer.fakes import FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, said
from tidelog import subjects
from tidelog.changes import Marker, Watermark
from tidelog.messages import Consumer
from tidelog.sim.world import World, run
from tidelog_drainer.service import build

SECOND = msgspec.structs.replace(CONFIG, node_id="d2")


async def feed(world: World) -> tuple[FakeRegistry, FakePump]:
    world.open_ddl_history = lambda url, bus: OneTable()
    registry = FakeRegistry(world.ports().bus)
    await registry.start()
    registry.consumers = [Consumer("reader", FEED, 0)]
    pump = await registry.pump("p1")
    pump.commit([*DDLS, txn(10)], 10)
    return registry, pump


def stopped(world: World) -> dict[str, str]:
    nodes = {name: world.node(name) for name in ("d1", "d2")}
    return {name: said(node)["error"] for name, node in nodes.items() if said(node).get("error")}


def published(world: World) -> list[int]:
    """The commit_ts of all markers; each mark links to the marker before it."""
    found = [0]
    for slot in world.nats.streams[subjects.changes_stream(FEED)].slots:
        assert slot is not None
        message = slot.message
        if message.subject == subjects.changes_txn(FEED):
            marker = msgspec.json.decode(message.data, type=Marker)
            assert marker.prev_commit_ts == found[-1]
            found += [one.commit_ts for one in marker.txns]
        elif message.subject == subjects.changes_watermark(FEED):
            watermark = msgspec.json.decode(message.data, type=Watermark)
            assert watermark.prev_commit_ts == found[-1] <= watermark.resolved_ts
    return found[1:]


def test_both_begin_a_new_feed_and_one_is_late() -> None:
    """It had found no stream; by now the other one has published."""

    async def main(world: World) -> None:
        registry, _ = await feed(world)
        registry.settled = False
        for name, config in (("d1", CONFIG), ("d2", SECOND)):
            world.node(name).start(build, config)
        await world.sleep(2)
        world.loop.stall("d2", "drainer.publisher/publish", 5)
        registry.settled = True
        await world.until(lambda: said(world.node("d1")).get("published_ts", 0) >= 10, 30, "d1")
        await world.until(lambda: bool(stopped(world)), 30, "the end of one")
        await world.sleep(3)
        assert published(world) == [2, 4, 10]
        assert list(stopped(world)) == ["d1"]

    run(main, 1)


@pytest.mark.parametrize("seed", range(4))
def test_the_second_begins_while_the_first_writes(seed: int) -> None:
    async def main(world: World) -> None:
        _, pump = await feed(world)
        first, second = world.node("d1"), world.node("d2")
        first.start(build, CONFIG)
        await world.until(lambda: said(first).get("published_ts", 0) >= 10, 30, "the first")
        times = [2, 4, 10]

        async def load() -> None:
            while True:
                times.append(times[-1] + 2)
                pump.commit([txn(times[-1])], times[-1])
                await world.sleep(0.002)

        loading = asyncio.get_running_loop().create_task(load())
        second.start(build, SECOND)
        await world.until(lambda: bool(stopped(world)), 30, "the end of one")
        await world.sleep(2)
        loading.cancel()
        await world.sleep(2)
        assert "writes to" in next(iter(stopped(world).values()))
        assert (first.failures, second.failures) == ([], [])
        assert published(world) == times

    run(main, seed)
