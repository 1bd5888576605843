"""Pumps of one machine: processes that share a disk, each on a slot of it."""

from __future__ import annotations

import asyncio

from tests.unit.pump.rig import CLUSTER, CLUSTER_ID, Client, Registry
from tidelog.sim import Node, World
from tidelog_pump.config import PumpConfig
from tidelog_pump.service import begin

SLOTS = PumpConfig(
    cluster=CLUSTER,
    cluster_id=CLUSTER_ID,
    oracle="follow",
    slots_dir="/shared",
    segment_bytes=64 << 10,
)


class Pumps:
    """As containers of one service: none has a name of its own. `registry` says yes to all."""

    def __init__(self, world: World, config: PumpConfig = SLOTS) -> None:
        self.world = world
        self.config = config
        self.machine = world.node("machine")
        self.running: list[Node] = []
        self.registry = Registry(world.clock().wall_ms)
        self.made = 0

    async def listen(self) -> None:
        """The registry."""
        await self.registry.start(self.world.ports("registry").bus)

    def begin(self) -> Node:
        """One more container."""
        self.made += 1
        node = self.world.node(f"container-{self.made}")
        node.disk, node.indexes = self.machine.disk, self.machine.indexes
        node.start(begin, self.config)
        return node

    async def start(self, count: int) -> None:
        """Scale up to so many; returns once all take Prewrites."""
        if not self.made:
            await self.listen()
        self.running += [self.begin() for _ in range(count - len(self.running))]
        for node in self.running:
            await self.world.until(lambda node=node: self.identity(node)[0] != "", 60)  # type: ignore[misc]
        for node in self.running:
            await self.client(node).until_online()

    async def stop(self, leave: int = 0) -> None:
        """Scale down, in order."""
        gone, self.running = self.running[leave:], self.running[:leave]
        await asyncio.gather(*(node.stop() for node in gone))

    async def kill(self, at: int) -> None:
        """The process, not the machine."""
        self.running.pop(at).end()

    def client(self, node: Node) -> Client:
        return Client(self.world.ports("registry").bus, self.identity(node)[0])

    def identity(self, node: Node) -> tuple[str, int, str]:
        """Node id, epoch, slot; empty before it has them."""
        status = node.status()
        own = status.get("identity", {}) if isinstance(status, dict) else {}
        return own.get("node", ""), own.get("epoch", 0), own.get("slot", "")

    def identities(self) -> dict[str, tuple[str, int]]:
        """Slot -> node id, epoch."""
        found = [self.identity(node) for node in self.running]
        assert len({slot for _, _, slot in found}) == len(found)
        return {slot: (node, epoch) for node, epoch, slot in found}
