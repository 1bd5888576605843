"""The embedded oracle on a real server: order over kill -9, and its figures."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from tests.integration.registry.process import Registry, living
from tests.integration.registry.test_store_deleted import fresh_eventually
from tests.servers import nats_server
from tests.unit.registry.nodes import CLUSTER
from tidelog.errors import Unavailable
from tidelog.oracle import RegistryOracle

CALLERS = 2000
TIMESTAMPS_PER_S = 200_000


def test_timestamps_rise_over_kill_9_of_registry_and_server(tmp_path: Path) -> None:
    async def main() -> None:
        with nats_server(tmp_path) as server:
            registry = Registry(server, tmp_path / "registry")
            registry.start()
            try:
                async with living(server, tmp_path) as bus:
                    oracle = RegistryOracle(bus, CLUSTER, timeout_s=0.5)
                    highest = await fresh_eventually(oracle, 20)
                    for victim in ("registry", "server", "registry"):
                        for _ in range(50):
                            last = await oracle.take(7)
                            assert last - 6 > highest
                            highest = last
                        if victim == "registry":
                            registry.kill()
                            registry.start()
                        else:
                            server.kill()
                            server.start()
                        again = await fresh_eventually(oracle, 20)
                        assert again > highest
                        highest = again
            finally:
                registry.kill()

    asyncio.run(main())


def test_it_gives_200_000_timestamps_a_second(tmp_path: Path) -> None:
    async def main() -> None:
        with nats_server(tmp_path) as server:
            registry = Registry(server, tmp_path / "registry")
            registry.start()
            try:
                async with living(server, tmp_path) as bus:
                    oracle = RegistryOracle(bus, CLUSTER)
                    await fresh_eventually(oracle, 20)
                    single = time.perf_counter()
                    for _ in range(300):
                        await oracle.fresh()
                    single = (time.perf_counter() - single) / 300

                    async def caller() -> int:
                        given = 0
                        for _ in range(20):
                            try:
                                await oracle.take(16)
                            except Unavailable:
                                continue
                            given += 16
                        return given

                    began = time.perf_counter()
                    given = sum(await asyncio.gather(*(caller() for _ in range(CALLERS))))
                    rate = given / (time.perf_counter() - began)
                    print(f"{rate:,.0f} timestamps/s, one alone {single * 1e6:.0f} us")
                    assert rate > TIMESTAMPS_PER_S
            finally:
                registry.kill()

    asyncio.run(main())
