"""A node that nobody answers is heard several times a lease, however it is lost to the registry."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.registry.nodes import CLUSTER, build, drainer, pump
from tidelog import subjects
from tidelog.messages import Beat, Registered, encode
from tidelog.ports import Request
from tidelog.sim.world import World, run
from tidelog_registry.nodes.node_state import NODE_LEASE_S


@pytest.mark.parametrize("registered", [False, True])
@pytest.mark.parametrize("kind", ["pump", "drainer"])
def test_at_least_three_times_a_lease(kind: str, registered: bool) -> None:
    heard: list[float] = []

    async def main(world: World) -> None:
        bus = world.ports().bus

        async def silent(request: Request) -> None:
            heard.append(world.ports().clock.monotonic())

        async def answer(request: Request) -> None:
            request.respond(encode(Registered("online") if registered else Beat(True)))

        await bus.serve(subjects.registry(CLUSTER, "heartbeat"), silent)
        await bus.serve(subjects.registry(CLUSTER, "register"), answer if registered else silent)
        node = world.node(kind)
        node.start(build, pump("n") if kind == "pump" else drainer("n"))
        await world.sleep(10 * NODE_LEASE_S)

    run(main, 1)
    longest = max(after - before for before, after in itertools.pairwise(heard))
    assert longest * 3 < NODE_LEASE_S
    # Nor is a registry that is away flooded when it comes back.
    assert len(heard) < 10 * NODE_LEASE_S * 2
