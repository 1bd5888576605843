"""Another writer took the downstream over, and this Applier leads all the same."""

from __future__ import annotations

import pytest

from tests.unit.applier.publisher import FEED
from tests.unit.applier.sim_rig import CONFIG, saved, started, world_with_database
from tests.unit.registry.nodes import CLUSTER
from tidelog import messages, subjects
from tidelog.ask_registry import HEARD_S
from tidelog.downstream import DownstreamOptions
from tidelog.messages import APPLIER, Nodes, NodeStatus
from tidelog.ports import Request
from tidelog.sim.life import Life
from tidelog.sim.world import World, run

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
