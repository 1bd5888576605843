"""The embedded oracle on a real server: order over kill -9, and its figures."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from tests.integration.registry.process import Registry, living
from tests.integration.registry.test_store_deleted import fresh_eventually
from tests.servers import nats_server
from tests.unit.registry.nodes import CLUSTER
from tidelog.oracle import RegistryOracle

CALLERS = 2000


def test_timestamps_rise_over_kill_9_of_registry_and_server(tmp_path: Path) -> None:
    async def main() -> None:
        with nats_server(tmp_path) as server:
            registry = Registry(server, tmp_path / "registry")
            registry.start()
            try:
                async with living(server, tmp_path) as bus:
                    oracle = RegistryOracle(bus, CLUSTER)
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


def test_many_callers_at_once_get_each_timestamp_once(tmp_path: Path) -> None:
    """How many a second: `python -m bench tso`."""

    async def main() -> None:
        with nats_server(tmp_path) as server:
            registry = Registry(server, tmp_path / "registry")
            registry.start()
            try:
                async with living(server, tmp_path) as bus:
                    oracle = RegistryOracle(bus, CLUSTER)
                    await fresh_eventually(oracle, 20)
                    given: list[int] = []

                    async def caller() -> None:
                        mine = 0
                        for _ in range(20):
                            last = await oracle.take(16)
                            assert last - 16 >= mine
                            mine = last
                            given.append(last)

                    await asyncio.gather(*(caller() for _ in range(CALLERS)))
                    given.sort()
                    assert all(b - a >= 16 for a, b in itertools.pairwise(given))
                    assert len(given) == CALLERS * 20
            finally:
                registry.kill()

    asyncio.run(main())
