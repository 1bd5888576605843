"""Another writer took the downstream over, and this Applier leads all the same."""

from __future__ import annotations

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.applier.publisher import FEED, create
from tests.unit.applier.sim_rig import (
    CONFIG,
    Slow,
    saved,
    started,
    stopped,
    world_with,
    world_with_database,
)
from tests.unit.registry.nodes import CLUSTER
from tidelog import messages, subjects
from tidelog.ask_registry import HEARD_S
from tidelog.downstream import DownstreamOptions
from tidelog.messages import APPLIER, Nodes, NodeStatus
from tidelog.ports import Request
from tidelog.sim.life import Life
from tidelog.sim.world import World, run
from tidelog_applier.service import build
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

OTHER = NodeStatus("applier-2", kind=APPLIER, feed=FEED, standbyOf=CONFIG.copy)


@pytest.mark.parametrize(
    ("heard_after_s", "goes_on"), [(0.0, True), (HEARD_S / 2, True), (HEARD_S * 10, False)]
)
def test_a_companion_that_the_registry_hears_of_later_is_one(
    heard_after_s: float, goes_on: bool
) -> None:
    """Seed 14130: the registry had just started. A stranger is a typed stop, as before."""

    async def main(world: World) -> None:
        database = world_with_database(world)
        bus, asked = world.ports("registry").bus, list[float]()

        async def tell(request: Request) -> None:
            asked.append(world.loop.time())
            known = [OTHER] if asked[-1] - asked[0] >= heard_after_s else []
            request.respond(messages.encode(Nodes(known)))

        await bus.serve(subjects.registry(CLUSTER, "nodes"), tell)
        publisher, node = await started(world)
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the tables")
        await database.open(DownstreamOptions(url="sim:"), Life("applier-2")).open(FEED)
        await publisher.rows()
        if goes_on:
            await world.until(lambda: saved(database) == publisher.commit_ts, 60, "the rest")
        else:
            await world.until(lambda: node.service.status()["applier"]["stopped"], 60, "the stop")
            assert asked[-1] - asked[0] >= HEARD_S

    run(main, 1)


def test_a_registry_that_is_away_is_asked_again_before_anybody_is_a_stranger() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await started(world)
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the tables")
        await database.open(DownstreamOptions(url="sim:"), Life("applier-2")).open(FEED)
        await publisher.rows()

        def error() -> str:
            return str(node.service.status()["applier"]["error"])

        await world.until(lambda: "the registry" in error(), 60, "that it is waited for")
        await world.sleep(HEARD_S * 3)
        assert not node.service.status()["applier"]["stopped"]

        async def tell(request: Request) -> None:
            request.respond(messages.encode(Nodes([OTHER])))

        await world.ports("registry").bus.serve(subjects.registry(CLUSTER, "nodes"), tell)
        await world.until(lambda: saved(database) == publisher.commit_ts, 60, "the rest")
        assert error() == ""

    run(main, 1)


def test_a_lane_that_is_fenced_off_is_told_although_no_row_follows() -> None:
    """Nothing is saved meanwhile, so that only the row of before meets the new epoch."""

    async def main(world: World) -> None:
        database = world_with(world, Slow)
        world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
        publisher, node = await started(world, msgspec.structs.replace(CONFIG, checkpoint_s=1000.0))
        await world.until(lambda: len(database.tables) == 2, 30, "the tables")
        database.row_s = 5.0
        await publisher.rows(t=[create(1, 1)])
        await world.sleep(2)
        database.epoch += 1
        await world.until(lambda: stopped(world), 120, "the typed stop")
        assert database.rows("d", "t") == []
        assert (node.starts, node.service.restarts_total) == (1, 0)

    run(main, 1)


def test_one_that_is_taken_over_while_it_ends_ends_all_the_same() -> None:
    """Its last row takes long, and the checkpoint that is due meanwhile meets the epoch first."""

    async def main(world: World) -> None:
        database = world_with(world, Slow)
        publisher, node = await started(world, msgspec.structs.replace(CONFIG, checkpoint_s=3.0))
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the tables")
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: len(database.rows("d", "t")) == 1, 30, "the first row")
        database.row_s = 20.0
        await publisher.rows(t=[create(2, 2)])
        await world.sleep(0.5)
        database.epoch += 1
        with capture_logs() as logs:
            await node.stop()
        told = {one["event"] for one in logs}
        assert "stopped without a last checkpoint" in told
        assert "actor ended with an error" not in told
        assert (node.failures, node.running) == ([], False)
        assert [row["id"] for row in database.rows("d", "t")] == [1]

    run(main, 1)


def test_one_that_lost_the_lease_while_it_wrote_stands_by() -> None:
    """Its own row meets the new epoch; it hears of no lease, and no longer than it has to asks."""

    async def main(world: World) -> None:
        database = world_with(world, Slow)
        world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
        publisher, node = await started(world)
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the tables")
        other = world.node("other")
        other.start(build, msgspec.structs.replace(CONFIG, node_id="b", standby_of=CONFIG.copy))
        await world.sleep(5)
        epoch, database.row_s = database.epoch, 60.0
        await publisher.rows(t=[create(1, 1)])
        await world.sleep(1)
        node.partition(True)
        await world.until(lambda: database.epoch > epoch, 50, "the takeover")
        database.row_s = 0.0
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the row")
        await world.until(lambda: node.service.restarts_total == 1, 90, "a new beginning")
        node.partition(False)
        await publisher.rows(t=[create(2, 2)])
        await world.until(lambda: saved(database) == publisher.commit_ts, 60, "the next row")
        assert not stopped(world)
        assert [row["id"] for row in database.rows("d", "t")] == [1, 2]
        assert (database.violations, node.starts, other.starts) == ([], 1, 1)

    run(main, 1)
