"""The Applier when something goes wrong at an awkward moment: nothing hangs, nothing is hidden."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.applier.publisher import Publisher, create
from tests.unit.applier.test_applier import CONFIG, saved, stopped, world_with_database
from tidelog.changes import Event
from tidelog.downstream import Fenced
from tidelog.errors import Stopped, TidelogError
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.life import Life
from tidelog.sim.world import World, run
from tidelog_applier.service import build


class RefusingRows(SimDatabase):
    """Takes tables and positions, and no row while it `refuses`."""

    refuses = True

    async def transact(self, life: Life, work: Any) -> None:
        if self.refuses and work.works:
            raise Stopped("the downstream refuses the row", hint="widen the column")
        await super().transact(life, work)


def test_a_lane_that_stops_is_told_although_no_row_follows() -> None:
    async def main(world: World) -> None:
        database = RefusingRows(world.random("database"), world.trace)
        world.open_downstream = database.open
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        node = world.node("applier")
        node.start(build, CONFIG)
        await world.until(lambda: len(database.tables) == 2, 10, "the tables")
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: stopped(world), 10, "the typed stop")
        await publisher.watermark(900)
        await world.sleep(10)
        assert node.service.status()["applier"]["on_their_way"] == 1
        assert saved(database) == 2

    run(main, 1)


def test_a_position_that_cant_be_saved_because_of_another_applier_is_a_fence() -> None:
    """Only watermarks come, and the saving task is the first to meet the new epoch."""

    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        node = world.node("applier")
        node.start(build, CONFIG)
        await world.until(lambda: saved(database) == 2, 10, "the tables")
        database.epoch += 1
        await publisher.watermark(500)
        await world.until(lambda: stopped(world), 20, "the typed stop")
        assert node.starts == 1
        assert node.service.restarts_total == 0
        assert saved(database) == 2

    run(main, 1)


class Slow(SimDatabase):
    """A transaction with rows takes `row_s`."""

    row_s = 0.0

    async def transact(self, life: Life, work: Any) -> None:
        if work.works:
            await life.sleep(self.row_s)
        await super().transact(life, work)
