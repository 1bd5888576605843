"""`tidelog feed unregister`: an application that is gone holds the Pumps' disks back no longer."""

from __future__ import annotations

import pytest

from tidelog.ask_registry import ask, nodes
from tidelog.errors import BadInput, Refused
from tidelog.messages import (
    APPLIER,
    DRAINER_CONSUMER,
    Consumer,
    Nodes,
    NodeStatus,
    SafePoint,
    SafePointRequest,
)
from tidelog.ports import Bus
from tidelog.sim.world import World, run
from tidelog_cli import feed
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build

CLUSTER = "c"


async def register(bus: Bus, name: str, commit_ts: int) -> None:
    request = SafePointRequest(Consumer(name, "main", commit_ts))
    await ask(bus, CLUSTER, "safepoint", request, SafePoint, timeout_s=5)


def test_one_that_is_gone_is_let_go() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        config = RegistryConfig(node_id="registry", cluster=CLUSTER, data_dir="")
        world.node("registry").start(build, config)
        await world.sleep(15)
        await register(bus, "billing", 5)
        await register(bus, "search", 7)
        asked: list[str] = []
        with pytest.raises(BadInput, match="'biling' reads no feed 'main'") as slip:
            await feed.unregister(bus, CLUSTER, "main", "biling", asked.append)
        assert slip.value.hint == "registered for it: billing, search"
        with pytest.raises(BadInput):
            await feed.unregister(bus, CLUSTER, "other", "billing", asked.append)
        assert asked == []
        done = await feed.unregister(bus, CLUSTER, "main", "billing", asked.append)
        assert (done.consumer, done.commit_ts) == ("billing", 5)
        assert "above 5" in asked[0]
        assert (await nodes(bus, CLUSTER, timeout_s=5)).consumers == [Consumer("search", "main", 7)]

    run(main, 1)


@pytest.mark.parametrize("name", ["a1", DRAINER_CONSUMER])
def test_a_node_goes_otherwise(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async def known(bus: Bus, cluster: str) -> Nodes:
        a1 = NodeStatus("a1", kind=APPLIER, feed="main")
        return Nodes([a1], consumers=[Consumer(name, "main", 5)])

    monkeypatch.setattr(feed, "nodes_soon", known)

    async def main(world: World) -> None:
        with pytest.raises(Refused, match="is a node"):
            await feed.unregister(world.ports().bus, CLUSTER, "main", name, print)

    run(main, 1)
