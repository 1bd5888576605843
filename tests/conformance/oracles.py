"""The oracles that give a cluster its timestamps (I9), each where a scenario runs on it.

`registry-sim`, `registry`: the registry's own, over the simulated bus and over NATS; `pd-sim`,
`pd-grpc`: PD's, called directly and over gRPC. A scenario is `async def scenario(house)`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Protocol

from tests.integration.registry.process import Registry
from tests.servers import NatsServer
from tests.unit.upstream.fake_net import FakeNet, served
from tests.unit.upstream.fake_pd import CLUSTER, FakePd
from tidelog.batched_oracle import BatchedOracle
from tidelog.oracle import RegistryOracle
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.sim import World, run
from tidelog.upstream.pd import PdClient
from tidelog.upstream.pd_oracle import PdOracle
from tidelog_registry import service
from tidelog_registry.config import RegistryConfig

TIMEOUT_S = 2.0
"""What each oracle here asks for at most."""
ONE, OTHER = "c1", "c2"
WHOLE_S = 90.0
_numbers = itertools.count(1)


class House(Protocol):
    """Where an oracle lives."""

    def run(self, scenario: Callable[[House], Awaitable[None]]) -> None: ...
    def oracle(self) -> BatchedOracle:
        """Another client at each call."""

    def foreign(self) -> BatchedOracle:
        """One that belongs to another cluster, and was led here."""

    async def fail_over(self) -> None:
        """Who gave the timestamps is gone, and another one gives them soon."""

    def leave(self) -> None:
        """Nobody gives any, until `come_back`."""

    async def come_back(self) -> None: ...


Scenario = Callable[[House], Awaitable[None]]


class SimRegistry:
    def run(self, scenario: Scenario) -> None:
        async def main(world: World) -> None:
            self._world = world
            self._node = world.node("registry")
            self._node.start(service.build, RegistryConfig(cluster=ONE))
            await scenario(self)

        run(main, 1)

    def oracle(self) -> BatchedOracle:
        return RegistryOracle(self._world.ports().bus, ONE, timeout_s=TIMEOUT_S)

    def foreign(self) -> BatchedOracle:
        return RegistryOracle(self._world.ports().bus, OTHER, timeout_s=TIMEOUT_S)

    async def fail_over(self) -> None:
        self._node.kill(restart_after_s=0.2)

    def leave(self) -> None:
        self._node.kill()

    async def come_back(self) -> None:
        self._node.restart()


class RealRegistry:
    """A process on a directory that outlives it."""

    def __init__(self, server: NatsServer, directory: Path) -> None:
        self._server, self._name = server, f"oracle-{next(_numbers)}"
        self._process = Registry(server, directory / "registry", "--cluster", self._name)

    def run(self, scenario: Scenario) -> None:
        async def main() -> None:
            self._bus = await NatsBus.connect(self._server.url)
            try:
                async with asyncio.timeout(WHOLE_S):
                    await scenario(self)
            finally:
                await self._bus.close()

        self._process.start()
        try:
            asyncio.run(main())
        finally:
            self._process.kill()

    def oracle(self) -> BatchedOracle:
        return RegistryOracle(self._bus, self._name, timeout_s=TIMEOUT_S)

    def foreign(self) -> BatchedOracle:
        return RegistryOracle(self._bus, f"{self._name}-other", timeout_s=TIMEOUT_S)

    async def fail_over(self) -> None:
        self.leave()
        await self.come_back()

    def leave(self) -> None:
        self._process.kill()

    async def come_back(self) -> None:
        self._process.start()


class SimPd:
    """Three servers; `rpc` and `clock` are what its clients call it by."""

    def run(self, scenario: Scenario) -> None:
        async def main(world: World) -> None:
            self._clock = world.clock()
            self._net = self._rpc = FakeNet()
            self._pd = FakePd(self._net, "pd1:2379", "pd2:2379", "pd3:2379")
            await scenario(self)

        run(main, 1)

    def oracle(self) -> BatchedOracle:
        return self._client(CLUSTER)

    def foreign(self) -> BatchedOracle:
        return self._client(CLUSTER + 1)

    def _client(self, cluster_id: int) -> BatchedOracle:
        pd = PdClient(self._rpc, self._clock, self._pd.urls, cluster_id=cluster_id)
        return PdOracle(pd, self._clock, timeout_s=TIMEOUT_S)

    async def fail_over(self) -> None:
        servers, gone = self._pd.addresses, self._pd.leader
        self._pd.leader = servers[(servers.index(gone) + 1) % len(servers)]
        self._net.down = {gone}

    def leave(self) -> None:
        self._net.down.update(self._pd.addresses)

    async def come_back(self) -> None:
        self._net.down.clear()


class GrpcPd(SimPd):
    def run(self, scenario: Scenario) -> None:
        async def main() -> None:
            self._clock = RealClock()  # type: ignore[assignment]
            self._net, rpc = FakeNet(), GrpcRpc()
            self._rpc = rpc  # type: ignore[assignment]
            self._pd = FakePd(self._net)
            try:
                async with AsyncExitStack() as stack, asyncio.timeout(WHOLE_S):
                    for _ in range(3):
                        await stack.enter_async_context(served(self._net, self._pd.server))
                    await scenario(self)
            finally:
                await rpc.close()

        asyncio.run(main())
