"""Two registries on copies of one data directory: the later one leads, the earlier one says so."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.registry.happens_before import Takings
from tests.unit.registry.nodes import CLUSTER
from tests.unit.registry.rig import given_within
from tests.unit.registry.test_lease_sim import ask, config, leads, starve
from tidelog.oracle import RegistryOracle
from tidelog.ports import Ports
from tidelog.sim import Node, World, run
from tidelog.supervisor import Supervisor
from tidelog.timestamps import compose
from tidelog_registry import service
from tidelog_registry.config import RegistryConfig
from tidelog_registry.lease.lease import Lease
from tidelog_registry.lease.tenure import TAKEOVER_S, AnotherRegistry, Tenure
from tidelog_registry.nodes.node_state import NODE_LEASE_S
from tidelog_registry.oracle.store import BoundStore


def copy(of: Node, to: Node) -> None:
    disk = of.ports().disk
    to.disk.restore({path: disk.read_file(path) for path in disk.listdir("")})


async def led(world: World) -> tuple[Node, Node]:
    """One that leads, and a node with a copy of its directory."""
    first, second = world.node("r1"), world.node("r2")
    first.start(service.build, config("r1"))
    await given_within(world, world.ports().bus, 10)
    await world.sleep(NODE_LEASE_S + 2)
    copy(first, second)
    return first, second


@pytest.mark.parametrize("seed", range(4))
def test_the_later_one_leads_and_the_earlier_one_stops_and_stays_out(seed: int) -> None:
    async def main(world: World) -> None:
        takings, stop = Takings(), asyncio.Event()
        first, second = await led(world)
        oracle = RegistryOracle(world.ports().bus, CLUSTER, timeout_s=0.7)
        asking = [asyncio.ensure_future(ask(oracle, takings, stop)) for _ in range(2)]
        await world.sleep(world.random("test").random())
        second.start(service.build, config("r2"))
        await world.until(lambda: bool(first.stopped), 3, "the earlier one stops")
        assert "another registry" in str(first.stopped[0]) or "r2" in str(first.stopped[0])
        for _ in range(3):
            first.restart()
            await world.until(lambda: not first.running, 5, "it stops again")
        assert all(isinstance(error, AnotherRegistry) for error in first.stopped)
        assert "registry r2 at r2:80" in str(first.stopped[-1])
        assert len(first.failures) == len(first.stopped) == 4
        assert leads(second)
        assert not second.failures
        await given_within(world, world.ports().bus, TAKEOVER_S)
        stop.set()
        await asyncio.gather(*asking)
        takings.check()

    run(main, seed)


@pytest.mark.parametrize("seed", range(4))
def test_beside_one_that_does_not_find_out_no_timestamp_is_given(seed: int) -> None:
    """The first one's lease is not renewed and runs out late; both hear every request."""

    async def main(world: World) -> None:
        takings, stop = Takings(), asyncio.Event()
        first, second = await led(world)
        oracle = RegistryOracle(world.ports().bus, CLUSTER, timeout_s=0.7)
        starve(world, first, 30)
        asking = [asyncio.ensure_future(ask(oracle, takings, stop)) for _ in range(2)]
        second.start(service.build, config("r2"))
        await world.until(lambda: leads(second), 3, "the later one leads")
        assert leads(first)
        await given_within(world, world.ports().bus, TAKEOVER_S)
        seen = len(takings.all)
        await world.sleep(2 * TAKEOVER_S)
        stop.set()
        await asyncio.gather(*asking)
        takings.check()
        assert len(takings.all) > seen

    run(main, seed)


def test_the_lease_alone_tells_too() -> None:
    def build(config: RegistryConfig, ports: Ports) -> Supervisor:
        tree = Supervisor("registry")
        tree.actor("lease", lambda: Lease(config, ports, Tenure(ports.clock)))
        return tree

    async def main(world: World) -> None:
        first, second = world.node("r1"), world.node("r2")
        first.start(build, config("r1"))
        await world.until(lambda: leads(first), 3, "it leads")
        copy(first, second)
        second.start(build, config("r2"))
        await world.until(lambda: bool(first.stopped), 3, "the earlier one stops")
        assert "registry r2 at r2:80" in str(first.stopped[0])
        assert "on a copy of its data directory" in str(first.stopped[0])
        await world.sleep(TAKEOVER_S)
        assert leads(second)

    run(main)


def test_a_bound_that_a_copy_claimed_is_extended_no_more() -> None:
    async def main(world: World) -> None:
        stores: list[BoundStore] = []
        for epoch, name in enumerate(("r1", "r2"), start=1):
            node, ports = world.node(name), world.node(name).ports()
            if stores:
                copy(world.node("r1"), node)
            tenure = Tenure(ports.clock)
            tenure.epoch = epoch
            stores.append(BoundStore(ports, CLUSTER, tenure))
            await stores[-1].open()
            await stores[-1].claim()
        first, second = stores
        assert first.owner == second.owner
        with pytest.raises(AnotherRegistry):
            await first.extend(compose(1))
        await second.extend(compose(2))

    run(main)
