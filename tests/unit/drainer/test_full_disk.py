"""A Drainer on a full disk waits, says for what, and goes on with the room; its process lives."""

from __future__ import annotations

import pytest

from tests.unit.drainer.test_lost_state import lived
from tests.unit.drainer.test_simulated import txn
from tests.unit.drainer.test_stops import CONFIG, joins, remembered, said
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
