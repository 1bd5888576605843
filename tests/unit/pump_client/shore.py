"""A simulated cluster, an application on a machine of its own, and a reader of the stream."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tests.simulation.created import created
from tidelog.change_reader import Change, ChangeReader
from tidelog.ddl_history import EmbeddedHistory, open_history
from tidelog.errors import Unavailable
from tidelog.ports import Bus, Clock, Disk, Ports, Rng
from tidelog.pump_client import PumpClient, Writer
from tidelog.sim import Node, World
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.service import build as build_drainer
from tidelog_pump.config import PumpConfig
from tidelog_pump.service import build as build_pump
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

FEED, CLUSTER = "main", "default"
PUMPS = ("pump-1", "pump-2")
App = Callable[[Writer], Awaitable[None]]


class Application:
    """A process that opens a writer and runs `app` with it, then stays until it is stopped."""

    def __init__(self, app: App, ports: Ports, *, keeps_state: bool) -> None:
        self._app = app
        self.writer = writer(ports.bus, ports.clock, ports.rng, ports.disk if keeps_state else None)

    async def run(self, stop: asyncio.Event) -> None:
        async with self.writer:
            await registry_answers(self.writer)
            await self._app(self.writer)
            await stop.wait()


async def registry_answers(client: Writer) -> None:
    """An application that starts with its cluster may come first."""
    while True:
        try:
            async with client.transaction():
                return
        except Unavailable:
            await asyncio.sleep(0.1)


def writer(bus: Bus, clock: Clock, rng: Rng, disk: Disk | None) -> Writer:
    client = PumpClient(bus, CLUSTER, 0, clock, rng, write_timeout_s=5, try_timeout_s=1)
    return Writer(client, bus, clock, rng, disk, cluster=CLUSTER)


class Shore:
    """`changes`: what a reader of the feed has got so far."""

    def __init__(self, world: World, *, txn_timeout_s: float = 600) -> None:
        self.world = world
        world.open_ddl_history = lambda url, bus: open_history(url, bus, CLUSTER)
        self.pumps = [world.node(name) for name in PUMPS]
        self.history = EmbeddedHistory(world.ports().bus, CLUSTER)
        self.changes: list[Change] = []
        self._reader = ChangeReader(world.ports().bus, FEED, 0)
        world.node("registry").start(build_registry, RegistryConfig(node_id="r", cluster=CLUSTER))
        for node in self.pumps:
            node.start(
                build_pump,
                PumpConfig(
                    node_id=node.name,
                    cluster=CLUSTER,
                    oracle="embedded",
                    txn_timeout_s=txn_timeout_s,
                ),
            )
        ports = world.ports("creator")
        self.creating = world.loop.create_task(created(ports.bus, CLUSTER, FEED))
        world.node("drainer").start(
            build_drainer, DrainerConfig(node_id="d", cluster=CLUSTER, feed=FEED)
        )

    def start(self, name: str, app: App, *, keeps_state: bool = True) -> Node:
        """Run an application on the machine `name`; a dead one is started anew with another."""
        node = self.world.node(name)

        def build(_: object, ports: Ports) -> Application:
            return Application(app, ports, keeps_state=keeps_state)

        node.start(build, None)
        return node

    async def read_until(self, condition: Callable[[], bool], within_s: float = 120) -> None:
        """Read the stream until a condition holds of what was read."""
        deadline = self.world.loop.time() + within_s
        while not condition():
            for node in self.world.nodes.values():
                if node.failures:
                    raise node.failures[0]
            assert self.world.loop.time() < deadline, self._where()
            self.changes += await self._reader.next(0.2)

    async def read_up_to_now(self) -> None:
        """Until the stream has passed a timestamp that is allocated now: so nothing is open."""
        ports = self.world.ports()
        async with (
            writer(ports.bus, ports.clock, ports.rng, None) as client,
            client.transaction() as txn,
        ):
            pass
        await self.read_until(lambda: (self._reader.position or 0) >= txn.start_ts)

    def rows(self) -> dict[int, list[tuple[str, object, object]]]:
        """By commit_ts: (op, before, after) of every row."""
        found: dict[int, list[tuple[str, object, object]]] = {}
        for message in (message for change in self.changes for message in change.rows):
            for event in message.events:
                found.setdefault(event.commit_ts, []).append((event.op, event.before, event.after))
        return found

    def queries(self) -> list[str]:
        return [ddl.query for change in self.changes for ddl in change.ddls]

    def _where(self) -> str:
        return "\n".join(f"{name}: {node.status()}" for name, node in self.world.nodes.items())
