"""T17: whatever part of a feed's memory is lost, nothing begins again from now or from 0 by itself.

Every subset of what tells of the feed is deleted while its Drainer is down. Then it goes on where
the stream, a reader or the feed's beginning says; or it stops, and names what an operator can say.
"""

from __future__ import annotations

from itertools import combinations

import msgspec
import pytest

from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, everything, said
from tidelog import subjects
from tidelog.feeds import Feed, Feeds
from tidelog.messages import Consumer
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.merge.sources import SOURCES_FILE
from tidelog_drainer.publish.beginning import FEED_FILE
from tidelog_drainer.publish.lives import EPOCH_FILE
from tidelog_drainer.service import build

STREAM, RECORD, DIRECTORY = "stream", "record", "directory"
MEMBERS, PUMPS, READERS = "members", "pumps", "readers"
PARTS = (STREAM, RECORD, DIRECTORY, MEMBERS, PUMPS, READERS)
"""What the Pumps and the readers tell comes by the registry: one that lost its own state asks them
again, and says so until it has."""
SUBSETS = [lost for count in range(len(PARTS) + 1) for lost in combinations(PARTS, count)]
READ_TS, BEGINS = 10, 1


def expected(lost: tuple[str, ...]) -> int | str:
    """After what the Drainer goes on; or what it says instead."""
    if STREAM not in lost:
        return 20
    if READERS not in lost:
        return READ_TS
    if {RECORD, DIRECTORY, PUMPS} <= set(lost):
        return f"`tidelog feed create {FEED}`"
    return "--start-ts"


async def lived(world: World) -> tuple[FakeRegistry, FakePump]:
    """A feed that was published up to 20, and whose reader has read up to READ_TS."""
    world.open_ddl_history = lambda url, bus: OneTable()
    registry = FakeRegistry(world.ports().bus)
    await registry.start()
    feeds = Feeds(registry.bus, CLUSTER)
    await feeds.remove(FEED)
    await feeds.create(Feed(FEED, BEGINS, 1))
    pump = await registry.pump("p1")
    registry.consumers = [Consumer("reader", FEED, 0)]
    pump.commit([*DDLS, txn(10), txn(20)], 20)
    node = world.node("drainer")
    node.start(build, CONFIG)
    await world.until(lambda: said(node).get("published_ts", 0) >= 20, 30, "the feed")
    await world.until(lambda: FEED in pump.after_ts, 10, "its pulls")
    node.kill()
    registry.consumers = [Consumer("reader", FEED, READ_TS)]
    return registry, pump


async def lose(world: World, registry: FakeRegistry, pump: FakePump, lost: tuple[str, ...]) -> None:
    node = world.node("drainer")
    if STREAM in lost:
        await registry.bus.stream_delete(subjects.changes_stream(FEED))
    if RECORD in lost:
        await Feeds(registry.bus, CLUSTER).remove(FEED)
    if DIRECTORY in lost:
        for name in (FEED_FILE, EPOCH_FILE, SOURCES_FILE):
            node.disk.lose(name)
    if MEMBERS in lost:
        await registry.bus.stream_delete(registry.bucket.stream)
        await registry.again()
    if PUMPS in lost:
        pump.after_ts.clear()
    if READERS in lost:
        registry.consumers = []


def outcome(node: Node) -> str:
    return str(said(node).get("error", ""))


@pytest.mark.parametrize("lost", SUBSETS, ids="+".join)
def test_nothing_begins_again_by_itself(lost: tuple[str, ...]) -> None:
    async def main(world: World) -> None:
        registry, pump = await lived(world)
        await lose(world, registry, pump, lost)
        pump.commit([txn(30)], 30)
        node, wanted = world.node("drainer"), expected(lost)
        node.restart()
        if isinstance(wanted, str):
            await world.until(lambda: wanted in outcome(node), 30, wanted)
            assert said(node)["not_ready"]
            await world.sleep(5)
            assert await registry.bus.stream_state(subjects.changes_stream(FEED)) is None
            assert (node.starts, node.failures) == (2, [])
            return
        await world.until(lambda: said(node).get("published_ts", 0) >= 30, 30, "the rest")
        whole = [2, 4, 10, 20, 30]
        kept = whole if STREAM not in lost else [ts for ts in whole if ts > wanted]
        assert await everything(world, 0 if STREAM not in lost else wanted) == kept
        feed = await Feeds(registry.bus, CLUSTER).get(FEED)
        assert feed is not None
        assert feed.begun

    run(main, 1)


ANSWERS = {
    "start-ts": (msgspec.structs.replace(CONFIG, start_ts=4), [10, 20, 30]),
    "accept-loss": (msgspec.structs.replace(CONFIG, accept_loss=True), [30]),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_operators_word_is_enough(answer: str) -> None:
    config, wanted = ANSWERS[answer]

    async def main(world: World) -> None:
        registry, pump = await lived(world)
        await lose(world, registry, pump, (STREAM, READERS))
        pump.after_ts[FEED] = 20
        pump.commit([txn(30)], 30)
        node = world.node("drainer")
        node.restart()
        await world.until(lambda: "--accept-loss" in outcome(node), 30, "the stop")
        await answered(world, node, config)
        assert await everything(world, wanted[0] - 1) == wanted

    run(main, 1)


async def answered(world: World, node: Node, config: DrainerConfig) -> None:
    node.kill()
    node.start(build, config)
    await world.until(lambda: said(node).get("published_ts", 0) >= 30, 30, "the feed")


def test_one_that_nobody_created_begins_by_itself_once_it_is() -> None:
    """And keeps no Pump from joining meanwhile."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry = FakeRegistry(world.ports().bus)
        await registry.start()
        feeds = Feeds(registry.bus, CLUSTER)
        await feeds.remove(FEED)
        pump = await registry.pump("p1")
        pump.commit([*DDLS, txn(10)], 10)
        node = world.node("drainer")
        node.start(build, CONFIG)
        await world.until(lambda: "was never created" in outcome(node), 30, "the stop")
        await world.sleep(30)
        await feeds.create(Feed(FEED, 2, 1))
        await world.until(lambda: said(node).get("published_ts", 0) >= 10, 30, "the feed")
        assert (outcome(node), said(node)["not_ready"]) == ("", "")
        assert await everything(world) == [4, 10]
        assert (node.starts, node.failures) == (1, [])

    run(main, 1)
