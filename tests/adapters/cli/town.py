"""A whole topology in one thread of this process, at a real NATS server: for commands that ask it.

Each service is built as its own process would build it, on real ports; only its signals are not
its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers import NatsServer
from tidelog.config import ServiceConfig
from tidelog.downstreams import open_downstream
from tidelog.ports import Ports
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports
from tidelog.supervisor import Supervisor
from tidelog_applier import service as applier
from tidelog_applier.config import ApplierConfig
from tidelog_drainer import service as drainer
from tidelog_drainer.config import DrainerConfig
from tidelog_pump import service as pump
from tidelog_pump.config import PumpConfig
from tidelog_registry import service as registry
from tidelog_registry.config import RegistryConfig

FEED = "main"


class Town:
    """A registry, two Pumps, a feed's Drainer and an Applier into SQLite."""

    def __init__(self, nats: NatsServer, directory: Path) -> None:
        self.nats = nats
        self.database = directory / "copy.db"
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._trees: dict[str, Supervisor] = {}
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._live, name="town")

    def start(self) -> None:
        self._thread.start()

    def ready(self, *names: str) -> bool:
        """Are these services, or all? Raises what ended the town."""
        if self._failure is not None:
            raise self._failure
        asked = names or [name for name, _, _ in self._services()]
        return all(name in self._trees and self._trees[name].ready for name in asked)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _live(self) -> None:
        try:
            self._loop.run_until_complete(self._run())
        except BaseException as error:  # noqa: BLE001 (`ready` raises it where somebody sees it)
            self._failure = error
        finally:
            self._loop.close()

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for name, build, config in self._services():
                group.create_task(self._serve(name, build, config))

    async def _serve(self, name: str, build: Any, config: ServiceConfig) -> None:
        bus = await NatsBus.connect(self.nats.url, name=name)
        try:
            disk = RealDisk(str(self._directory / name))
            ports = real_ports(config, disk, bus, open_downstream=open_downstream)
            tree = await _built(build, config, ports)
            self._trees[name] = tree
            await tree.run(self._stop)
        finally:
            await bus.close()

    def _services(self) -> list[tuple[str, Any, ServiceConfig]]:
        pumps = [
            (name, pump.begin, PumpConfig(node_id=name, grpc_addr="", txn_timeout_s=1.0))
            for name in ("pump-1", "pump-2")
        ]
        return [
            ("registry", registry.build, RegistryConfig()),
            *pumps,
            ("drainer", drainer.build, DrainerConfig(node_id="drainer", feed=FEED)),
            (
                "applier",
                applier.build,
                ApplierConfig(
                    node_id="applier", feed=FEED, downstream=f"sqlite:///{self.database}"
                ),
            ),
        ]


async def _built(build: Any, config: ServiceConfig, ports: Ports) -> Supervisor:
    made = build(config, ports)
    tree: Supervisor = await made if asyncio.iscoroutine(made) else made
    return tree


@contextmanager
def town(nats: NatsServer, directory: Path) -> Iterator[Town]:
    made = Town(nats, directory)
    made.start()
    try:
        yield made
    finally:
        made.end()
