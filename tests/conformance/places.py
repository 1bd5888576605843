"""Where a conformance scenario runs: on the simulated ports or on the real ones.

A scenario is `async def scenario(place: Place)`; `place.run(scenario)` runs it. Names of streams
and subjects come from `place.name`, because the real server is shared by all scenarios.
"""

from __future__ import annotations

import asyncio
import itertools
import resource
import shutil
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, cast

from tests.servers import NatsServer
from tidelog.config import ServiceConfig
from tidelog.ports import Bus, Clock, Disk, IndexStore, Ports
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.real.index import RocksIndex
from tidelog.real.ports import real_ports
from tidelog.sim import World, run

Scenario = Callable[["Place"], Awaitable[None]]
WAIT_S = 20.0
_numbers = itertools.count(1)


class Place(Protocol):
    name: str
    """A token nobody else uses: part of subjects and stream names."""

    def run(self, scenario: Scenario) -> None: ...
    async def bus(self) -> Bus:
        """A connection of its own at each call."""

    def disk(self) -> Disk:
        """Another process's view of the same directory at each call."""

    def ports(self) -> Ports:
        """On the directory of `disk`; of the real ones without a bus."""

    def index(self) -> IndexStore: ...
    def failing_index(self) -> AbstractContextManager[None]:
        """Whatever it writes meanwhile fails."""

    def drop_index(self) -> None: ...
    def clock(self) -> Clock: ...
    async def restart_server(self) -> None: ...


class SimPlace:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.name = "c1"
        self._world: World
        self._buses = 0

    def run(self, scenario: Scenario) -> None:
        async def main(world: World) -> None:
            self._world = world
            await scenario(self)

        run(main, self.seed)

    async def bus(self) -> Bus:
        self._buses += 1
        return self._world.ports(f"client-{self._buses}").bus

    def disk(self) -> Disk:
        return self._world.ports("disk").disk

    def ports(self) -> Ports:
        return self._world.ports("disk")

    def index(self) -> IndexStore:
        return self._world.ports("disk").open_index("index")

    @contextmanager
    def failing_index(self) -> Iterator[None]:
        file = self._world.node("disk").indexes["index"]
        file.failing = True
        yield
        file.failing = False

    def drop_index(self) -> None:
        self._world.ports("disk").drop_index("index")

    def clock(self) -> Clock:
        return self._world.ports("disk").clock

    async def restart_server(self) -> None:
        self._world.nats.stop()
        await self._world.sleep(0.5)
        self._world.nats.start()


class RealPlace:
    def __init__(self, server: NatsServer, directory: Path) -> None:
        self.name = f"c{next(_numbers)}"
        self._server = server
        self._directory = directory
        self._buses: list[NatsBus] = []

    def run(self, scenario: Scenario) -> None:
        async def main() -> None:
            try:
                async with asyncio.timeout(90):
                    await scenario(self)
            finally:
                for bus in self._buses:
                    await bus.close()

        asyncio.run(main())

    async def bus(self) -> Bus:
        async with asyncio.timeout(WAIT_S):
            bus = await NatsBus.connect(self._server.url)
        self._buses.append(bus)
        return bus

    def disk(self) -> Disk:
        return RealDisk(self._directory)

    def ports(self) -> Ports:
        return real_ports(ServiceConfig(), RealDisk(self._directory), cast(Bus, None))

    def index(self) -> IndexStore:
        return RocksIndex(self._directory / "index")

    @contextmanager
    def failing_index(self) -> Iterator[None]:
        """As on a full disk: no file may become larger than it is bound to be by now."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def drop_index(self) -> None:
        shutil.rmtree(self._directory / "index")

    def clock(self) -> Clock:
        return RealClock()

    async def restart_server(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._server.stop)
        await loop.run_in_executor(None, self._server.start)


async def until(condition: Callable[[], bool], within_s: float = WAIT_S) -> None:
    """Wait for a condition on either clock."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 (any condition)
            await asyncio.sleep(0.005)
