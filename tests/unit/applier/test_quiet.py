"""An Applier that is resumed while it comes to rest for a pause, and paused once more."""

from __future__ import annotations

from tests.unit.applier.publisher import create
from tests.unit.applier.sim_rig import NODE, Slow, saved, started, told_by_registry, world_with
from tests.unit.registry.nodes import CLUSTER
from tests.unit.registry.rig import operate, until_state
from tidelog.sim.world import World, run
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry


def test_a_pause_behind_one_that_was_taken_back_is_not_reached_while_rows_are_written() -> None:
    async def main(world: World) -> None:
        database = world_with(world, Slow)
        world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
        publisher, node = await started(world)
        await told_by_registry(world)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: saved(database) == publisher.commit_ts, 20, "the row")
        bus = world.ports().bus
        await publisher.rows(t=[create(2, 1)])
        await world.until(lambda: len(database.rows("d", "t")) == 2, 20, "another")
        await operate(bus, NODE, "pause")
        await world.until(lambda: node.service.status()["applier"]["held"], 20, "the pause")
        database.faults.refused = 1.0  # the database is away, and that row is not saved yet
        await world.sleep(5)
        for number in range(100):
            await publisher.rows(t=[create(10 + number, 1)])
        await operate(bus, NODE, "resume")
        await until_state(world, bus, NODE, "online")
        await world.sleep(3)
        database.row_s = 1.0
        database.faults.heal()
        await world.until(lambda: len(database.rows("d", "t")) > 5, 60, "some of the rows")
        await operate(bus, NODE, "pause")
        await until_state(world, bus, NODE, "paused", 120)
        told = len(database.rows("d", "t"))
        await world.sleep(30)
        assert len(database.rows("d", "t")) == told

    run(main, 1)
