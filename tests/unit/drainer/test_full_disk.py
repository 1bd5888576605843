"""A Drainer on a full disk waits, says for what, and goes on with the room; its process lives."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.drainer.test_lost_state import lived
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, begin, everything, joins, remembered, said
from tidelog.errors import DiskFull
from tidelog.sim.world import World, run
from tidelog_drainer.service import build


def test_it_starts_once_there_is_room() -> None:
    async def main(world: World) -> None:
        _, pump = await lived(world)
        node = world.node("drainer")
        node.disk.full = True
        node.start(build, CONFIG)
        pump.commit([txn(30)], 30)
        await world.sleep(20)
        assert said(node).get("published_ts", 0) < 30
        node.disk.full = False
        await world.until(lambda: said(node).get("published_ts", 0) >= 30, 30, "the feed")
        assert (node.starts, node.stopped) == (2, [])

    run(main)


def test_a_structure_waits_for_room() -> None:
    """The first batch of a life writes them again, and what it knows of their bucket."""

    async def main(world: World) -> None:
        _, pump = await lived(world)
        node = world.node("drainer")
        node.start(build, CONFIG)
        await world.until(lambda: "2:" in str(said(node).get("epoch")), 30, "its second life")
        await world.sleep(5)
        node.disk.full = True
        pump.commit([txn(30)], 30)
        await world.until(lambda: "no space" in str(said(node).get("waiting")), 30, "its words")
        await world.sleep(20)
        assert said(node).get("published_ts", 0) < 30
        node.disk.full = False
        await world.until(lambda: said(node).get("published_ts", 0) >= 30, 30, "the feed")
        assert not said(node)["waiting"]
        assert (node.starts, node.stopped) == (2, [])

    run(main)


def test_a_pump_that_can_t_be_remembered_is_not_let_in() -> None:
    """The registry asks again: a Pump that takes writes is a source wherever it is forgotten."""

    async def main(world: World) -> None:
        await lived(world)
        node = world.node("drainer")
        node.start(build, CONFIG)
        await world.until(lambda: "2:" in str(said(node).get("epoch")), 30, "its second life")
        await world.sleep(5)
        node.disk.full = True
        with pytest.raises(DiskFull):
            await joins(world, "p9")
        assert "p9" not in remembered(node)
        node.disk.full = False
        await joins(world, "p9")
        assert "p9" in remembered(node)
        assert (node.starts, node.stopped) == (2, [])

    run(main)


def test_that_a_pump_is_read_up_to_here_is_noted_once_there_is_room() -> None:
    """It joined on the way, and was to be read from further back: a restart that still thought so
    would meet what is published already, and take it for passed over."""

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10)], 100)
        await world.until(lambda: said(node, "collector").get("emitted_ts", 0) >= 100, 30, "100")
        late = await registry.pump("p2")
        await world.until(lambda: remembered(node).get("p2") == 0, 30, "its place")
        node.disk.full = True
        late.commit([txn(150)], 300)
        pump.commit([txn(200)], 300)
        await world.sleep(5)
        assert said(node)["published_ts"] < 150
        node.disk.full = False
        await world.until(lambda: said(node)["published_ts"] >= 300, 60, "300")
        assert remembered(node) == {"p1": None, "p2": None}
        node.kill()
        node.restart()
        pump.commit([], 400)
        late.commit([], 400)
        await world.until(lambda: said(node).get("published_ts", 0) >= 400, 60, "400")
        assert [ts for ts in await everything(world) if ts >= 10] == [10, 150, 200]

    run(main, 1)


def test_one_that_stands_by_lives_on() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        registry, pump = await begin(world)
        node, two = world.node("drainer"), world.node("two")
        pump.commit([*DDLS, txn(10)], 100)
        await world.until(lambda: said(node).get("published_ts", 0) >= 100, 30, "100")
        two.start(build, msgspec.structs.replace(CONFIG, node_id="d2"))
        await world.until(lambda: bool(said(two, "lease").get("standby")), 30, "standby")
        await world.sleep(5)
        two.disk.full = True
        await registry.record("p9")
        await world.sleep(60)
        assert (two.starts, two.stopped) == (1, [])
        two.disk.full = False
        await world.until(lambda: "p9" in remembered(two), 30, "what it could not note")

    run(main, 1)
