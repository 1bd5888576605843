"""A Pump that all had forgotten comes back with what was passed without it (I3, I4)."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from tests.integration.drainer.fakes import FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, begin, everything, remembered, said
from tidelog import subjects
from tidelog.errors import Corrupt
from tidelog.messages import OFFLINE, Consumer
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_drainer.merge.merger import Merger, Overtaken
from tidelog_drainer.merge.sources import SOURCES_FILE
from tidelog_drainer.publish.beginning import FOLLOW_S
from tidelog_drainer.service import build


async def published(world: World, node: Node, ts: int) -> None:
    await world.until(lambda: said(node).get("published_ts", 0) >= ts, 30, str(ts))


async def goes_on_with(
    world: World, registry: FakeRegistry, pump: FakePump, back: FakePump
) -> None:
    """p2 is a source again, and no stop."""
    back.commit([txn(250)], 300)
    await registry.record("p2")
    pump.commit([], 300)
    await published(world, world.node("drainer"), 300)
    assert await everything(world) == [2, 4, 10, 50, 250]


def test_a_source_met_late_is_read_from_before() -> None:
    merger = Merger(3)
    merger.add("a")
    merger.push("a", [(5, 4, b""), (9, 8, b"")], 9, 0)
    assert [ts for ts, _, _ in merger.take(9)] == [5, 9]
    assert merger.add("b", 3)
    assert merger.horizon() == 9
    merger.push("b", [], 8, 0)
    merger.push("b", [(11, 10, b"")], 11, 0)
    merger.push("a", [], 12, 0)
    assert [ts for ts, _, _ in merger.take(merger.horizon())] == [11]


@pytest.mark.parametrize("commit_ts", [4, 8, 9])
def test_what_was_passed_without_a_source_stops_the_merge(commit_ts: int) -> None:
    merger = Merger(3)
    merger.add("a")
    merger.push("a", [(5, 4, b"")], 9, 0)
    merger.take(9)
    merger.add("b", 3)
    with pytest.raises(Overtaken) as stop:
        merger.push("b", [(commit_ts, 1, b"")], 20, 0)
    assert stop.value.commit_ts == commit_ts
    assert merger.horizon() == 9


def test_the_stop_holds_over_restarts_until_the_pump_is_given_up() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 100)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 100, 30, "100")
        forgotten = await registry.pump("p2")
        forgotten.commit([txn(50)], 60)
        pump.commit([txn(200)], 300)
        for _ in range(2):
            await world.until(lambda: bool(said(node, "collector").get("error")), 30, "the stop")
            assert "p2 has commit_ts 50" in said(node, "collector")["error"]
            assert remembered(node) == {"p1": None, "p2": 0}
            await world.sleep(2)
            node.kill()
            node.restart()
        assert 200 not in await everything(world)
        await registry.record("p2", OFFLINE)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 300, 30, "300")
        assert said(node, "collector")["error"] == ""
        assert set(remembered(node)) == {"p1"}
        assert 200 in await everything(world)

    run(main, 1)


def test_of_two_that_came_back_the_one_that_is_left_is_still_named() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 100)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 100, 30, "100")

        def stopped_by(name: str) -> bool:
            return name in said(node, "collector").get("error", "")

        for name, ts in (("p2", 50), ("p3", 60)):
            (await registry.pump(name)).commit([txn(ts)], ts)
            await world.until(partial(stopped_by, name), 30, name)
        await registry.record("p3", OFFLINE)
        await world.until(lambda: "p3" not in said(node, "collector")["sources"], 30, "p3 to go")
        assert "p2 has commit_ts 50" in said(node, "collector")["error"]
        await registry.record("p2", OFFLINE)
        await world.until(lambda: not said(node, "collector")["error"], 30, "the end of the stop")
        pump.commit([txn(200)], 300)
        await world.until(lambda: said(node, "collector")["emitted_ts"] >= 300, 30, "300")

    run(main, 1)


def test_a_stream_that_lost_its_tail_is_filled_from_a_pump_that_had_come_late() -> None:
    """The new life begins below the one in which that Pump was met."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        late = await registry.pump("p2")
        pump.commit([*DDLS, txn(10)], 100)
        late.commit([], 20)
        await published(world, node, 20)
        older = world.nats.copy_store()[subjects.changes_stream(FEED)]
        late.commit([txn(50)], 100)
        await published(world, node, 100)
        await world.sleep(2)
        # All forget p2: it is met anew, and does not answer before the Drainer ends.
        node.kill()
        node.disk.lose(SOURCES_FILE)
        world.nats.delete(registry.bucket.stream)
        registry.pumps.remove(late)
        await late.close()
        await registry.again()
        node.restart()
        pump.commit([], 200)
        await published(world, node, 200)
        await registry.record("p2")
        await world.until(lambda: "p2" in remembered(node), 30, "p2")
        node.kill()
        world.nats.roll_back({**world.nats.streams, subjects.changes_stream(FEED): older})
        await late.start()
        late.commit([], 300)
        pump.commit([], 300)
        node.restart()
        await published(world, node, 300)
        assert await everything(world) == [2, 4, 10, 50]

    run(main, 1)


def test_sources_that_cannot_be_read_end_the_start_by_name() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        node = world.node("drainer")
        await node.ports().disk.write_file(SOURCES_FILE, b'["p1"')
        await begin(world)
        await world.until(lambda: bool(node.failures), 30, "the refusal")
        assert isinstance(node.failures[0], Corrupt)
        assert SOURCES_FILE in str(node.failures[0])

    run(main, 1)


def test_a_newcomer_is_read_from_the_position_after_a_restart() -> None:
    """Once it was read up to what was emitted, what it commits later is no news from before."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 100)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 100, 30, "100")
        late = await registry.pump("p2")
        late.commit([txn(150)], 400)
        pump.commit([], 400)
        await world.until(lambda: said(node, "collector")["emitted_ts"] >= 400, 30, "400")
        assert remembered(node) == {"p1": None, "p2": None}
        node.kill()
        node.restart()
        late.commit([txn(450)], 500)
        pump.commit([], 500)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 500, 30, "500")
        assert (await everything(world))[-2:] == [150, 450]

    run(main, 1)


def test_one_that_joined_before_the_merge_began_was_passed_by_it() -> None:
    """It was kept as one that is to be met yet, as the bucket told the merge nothing new: the next
    life read it from before, and stood still (seed 19402)."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        await world.until(lambda: node.ports().disk.exists(SOURCES_FILE), 30, "p1")
        node.kill()
        node.restart()
        await world.sleep(0.001)  # what is left of the earlier life has ended
        world.loop.stall("drainer", "drainer.publisher/publish", 6.0)  # no merge can begin
        late = await registry.pump("p2")
        await world.until(lambda: "p2" in remembered(node), 5, "p2")
        pump.commit([*DDLS, txn(10)], 100)
        late.commit([txn(50)], 100)
        await published(world, node, 100)
        node.kill()
        node.restart()
        late.commit([txn(250)], 300)
        pump.commit([], 300)
        await published(world, node, 300)
        assert said(node, "collector")["error"] == ""
        assert await everything(world) == [2, 4, 10, 50, 250]

    run(main, 1)


async def of_two(world: World) -> tuple[FakeRegistry, FakePump, Node, Node]:
    """The Drainer that published up to 20, and another one, not started yet."""
    world.open_ddl_history = lambda url, bus: OneTable()
    registry, pump = await begin(world)
    node, other = world.node("drainer"), world.node("other")
    pump.commit([*DDLS, txn(10)], 20)
    await published(world, node, 20)
    return registry, pump, node, other


def test_from_where_one_that_had_stood_by_passed_is_known_to_its_next_life() -> None:
    """It met the bucket while it stood by, which told the merge nothing new: the next life knew
    only its own beginning, and read a Pump that all had forgotten from there, losing 60."""

    async def main(world: World) -> None:
        registry, pump, node, other = await of_two(world)
        node.kill()
        other.start(build, msgspec.structs.replace(CONFIG, node_id="d2"))
        pump.commit([txn(30)], 40)
        await published(world, other, 40)
        node.restart()
        await world.until(lambda: bool(said(node, "lease").get("standby")), 30, "the standby")
        await world.sleep(2 * FOLLOW_S)
        other.kill()
        pump.commit([txn(80)], 100)
        await published(world, node, 100)
        node.kill()
        node.restart()
        forgotten = await registry.pump("p2")
        forgotten.commit([txn(60)], 70)
        await world.until(lambda: bool(said(node, "collector").get("error")), 30, "the stop")
        assert "p2 has commit_ts 60" in said(node, "collector")["error"]

    run(main, 1)


async def forgotten_while_away(world: World) -> tuple[FakeRegistry, FakePump]:
    """p2 joined and took 50 while the Drainer was away, and is down; nobody knows of it any more,
    and what p1 has, up to 100, is passed."""
    world.open_ddl_history = lambda url, bus: OneTable()
    registry, pump = await begin(world)
    node = world.node("drainer")
    pump.commit([*DDLS, txn(10)], 20)
    await published(world, node, 20)
    node.kill()
    late = await registry.pump("p2")
    late.commit([txn(50)], 60)
    await late.close()
    registry.pumps.remove(late)
    world.nats.delete(registry.bucket.stream)
    await registry.again()
    pump.commit([txn(80)], 100)
    node.restart()
    await published(world, node, 100)
    return registry, late


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_what_earlier_lives_passed_without_a_pump_stops_the_merge_too(restarts: int) -> None:
    async def main(world: World) -> None:
        registry, late = await forgotten_while_away(world)
        node = world.node("drainer")
        for _ in range(restarts):
            await world.sleep(3)
            node.kill()
            node.restart()
        await world.sleep(3)
        await late.start()
        await registry.record("p2")
        await world.until(lambda: bool(said(node, "collector").get("error")), 30, "the stop")
        assert "p2 has commit_ts 50, and 100 was passed" in said(node, "collector")["error"]

    run(main, 1)


def test_a_pump_that_was_taken_out_left_nothing_behind_whoever_forgets_that() -> None:
    """Its tombstone is lost with the bucket, and the Drainer is restarted: it joins as a new one,
    with its old log."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        gone = await registry.pump("p2")
        pump.commit([*DDLS, txn(10)], 100)
        gone.commit([txn(50)], 100)
        await published(world, node, 100)
        await registry.record("p2", OFFLINE)
        await world.until(lambda: set(remembered(node)) == {"p1"}, 30, "the tombstone")
        registry.pumps.remove(gone)
        world.nats.delete(registry.bucket.stream)
        await registry.again()
        pump.commit([], 200)
        await published(world, node, 200)
        node.kill()
        node.restart()
        await world.sleep(3)
        await goes_on_with(world, registry, pump, gone)

    run(main, 1)


async def another_published(world: World) -> tuple[FakeRegistry, FakePump, FakePump]:
    """Another Drainer passed up to 100 with p2, which nobody knows of any more, and has ended."""
    registry, pump, node, other = await of_two(world)
    node.kill()
    late = await registry.pump("p2")
    late.commit([txn(50)], 100)
    other.start(build, msgspec.structs.replace(CONFIG, node_id="d2"))
    pump.commit([], 100)
    await published(world, other, 100)
    other.kill()
    await late.close()
    registry.pumps.remove(late)
    world.nats.delete(registry.bucket.stream)
    await registry.again()
    return registry, pump, late


def test_what_another_drainer_published_was_not_passed_by_this_one() -> None:
    async def main(world: World) -> None:
        registry, pump, late = await another_published(world)
        pump.commit([], 200)
        world.node("drainer").restart()
        await published(world, world.node("drainer"), 200)
        await late.start()
        await goes_on_with(world, registry, pump, late)

    run(main, 1)


def test_nor_by_a_life_that_only_began_a_lost_stream_anew() -> None:
    """Its first mark in the stream says nothing of who had published before (seed 368)."""

    async def main(world: World) -> None:
        registry, pump, late = await another_published(world)
        registry.consumers = [Consumer("reader", FEED, 100)]
        stream = subjects.changes_stream(FEED)
        world.nats.delete(stream)
        node, bus = world.node("drainer"), world.ports().bus
        node.restart()
        while (state := await bus.stream_state(stream)) is None or not state.last_seq:
            await world.sleep(0.001)
        node.kill()
        node.restart()
        pump.commit([], 200)
        await published(world, node, 200)
        await late.start()
        await registry.record("p2")
        late.commit([txn(250)], 300)
        pump.commit([], 300)
        await published(world, node, 300)
        assert await everything(world, 100) == [250]

    run(main, 1)


@pytest.mark.parametrize("lost", [False, True])
def test_what_it_still_had_to_read_another_one_has_passed_since(lost: bool) -> None:
    """A Pump was met, and not read up to the feed's position, when another Drainer took over (seed
    13619). `lost`: with the stream goes what told so, but this one had stood by."""

    async def main(world: World) -> None:
        registry, pump, node, other = await of_two(world)
        late = await registry.pump("p2")
        await world.until(lambda: remembered(node) == {"p1": None, "p2": 0}, 30, "p2")
        node.kill()
        other.start(build, msgspec.structs.replace(CONFIG, node_id="d2"))
        late.commit([txn(50)], 100)
        pump.commit([], 100)
        await published(world, other, 100)
        if lost:
            node.restart()
            await world.until(lambda: bool(said(node, "lease").get("standby")), 30, "the standby")
            await world.sleep(2 * FOLLOW_S)
            registry.consumers = [Consumer("reader", FEED, 100)]
            world.nats.delete(subjects.changes_stream(FEED))
        other.kill()
        if not lost:
            node.restart()
        late.commit([txn(250)], 300)
        pump.commit([], 300)
        await published(world, node, 300)
        assert (await everything(world, 100))[-1:] == [250]
        assert said(node, "collector")["error"] == ""

    run(main, 1)


def test_a_bucket_that_is_not_trusted_yet_is_remembered_all_the_same() -> None:
    """It is lost before it is old enough, with the registry's copy of it (seed 1014)."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world, msgspec.structs.replace(CONFIG, lease_s=6.0))
        node = world.node("drainer")
        late = await registry.pump("p2")
        late.commit([txn(50)], 60)
        await world.until(
            lambda: "p2" in said(node, "collector").get("sources", {}), 3, "the bucket to be read"
        )
        await world.until(
            lambda: node.ports().disk.exists(SOURCES_FILE) and "p2" in remembered(node),
            3,
            "its name to be kept",
        )
        assert not said(node, "collector")["trusted"]
        node.kill()
        world.nats.delete(registry.bucket.stream)
        registry.pumps.remove(late)
        await registry.again()
        node.restart()
        pump.commit([*DDLS, txn(10), txn(100)], 200)
        late.commit([], 200)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 200, 30, "200")
        assert await everything(world) == [*[ts for ts, _, _ in DDLS], 10, 50, 100]

    run(main, 1)
