"""An Applier in the simulator, behind a feed that is published by hand."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from tests.unit.applier.publisher import FEED, Publisher
from tests.unit.registry.nodes import CLUSTER, nodes
from tidelog.errors import TidelogError
from tidelog.messages import Nodes
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.life import Life
from tidelog.sim.node import Node
from tidelog.sim.world import World
from tidelog_applier.config import ApplierConfig
from tidelog_applier.service import build

CONFIG = ApplierConfig(feed=FEED, cluster=CLUSTER, downstream="sim:", txn_batch=7, checkpoint_s=0.3)
NODE = "applier-shop"
D = TypeVar("D", bound=SimDatabase)


class Slow(SimDatabase):
    """A transaction with rows takes `row_s`."""

    row_s = 0.0

    async def transact(self, life: Life, work: Any) -> None:
        if work.works:
            await asyncio.sleep(self.row_s)
        await super().transact(life, work)


def world_with(world: World, kind: type[D]) -> D:
    """The downstream of every Applier in it."""
    database = kind(world.random("database"), world.trace)
    world.open_downstream = database.open
    return database


def world_with_database(world: World) -> SimDatabase:
    return world_with(world, SimDatabase)


def saved(database: SimDatabase) -> int:
    """Up to where the downstream says that it holds everything; -1 while it says nothing."""
    return database.checkpoint.commit_ts if database.checkpoint is not None else -1


async def started(world: World, config: ApplierConfig = CONFIG) -> tuple[Publisher, Node]:
    """A feed with its tables, and the node of the Applier that reads it."""
    publisher = Publisher(world.ports("drainer").bus)
    await publisher.begin()
    node = world.node("applier")
    node.start(build, config)
    return publisher, node


async def told_by_registry(world: World) -> Nodes:
    """What the registry knows, once it has heard of the Applier."""
    found: list[Nodes] = []

    async def ask() -> None:
        while not any(status.nodeId == NODE for status in (found[-1].nodes if found else [])):
            await world.sleep(0.2)
            try:
                found.append(await nodes(world.ports().bus))
            except TidelogError as error:
                world.trace.event("test", "no registry yet", str(error))

    await asyncio.wait_for(ask(), 20)
    await world.sleep(3)
    return await nodes(world.ports().bus)


def stopped(world: World) -> bool:
    service = world.node("applier").service
    return service is not None and bool(service.status().get("applier", {}).get("stopped"))
