"""Two registry processes on one cluster, on a real server; and kill -9 under concurrent clients."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest

from tests.integration.registry.process import Registry, living
from tests.integration.registry.test_store_deleted import all_online, eventually, fresh_eventually
from tests.servers import NatsServer, nats_server
from tests.unit.registry.happens_before import Takings
from tests.unit.registry.nodes import CLUSTER, pump
from tidelog.errors import EXIT_OK, EXIT_RESTART
from tidelog.oracle import RegistryOracle
from tidelog.real.bus import NatsBus

KILLS = 5
WAITS = "waiting for the lease of another registry"


async def _ask(server: NatsServer, takings: Takings, stop: asyncio.Event) -> None:
    """One client, with a connection of its own."""
    bus = await NatsBus.connect(server.url)
    try:
        oracle = RegistryOracle(bus, CLUSTER, timeout_s=0.5)
        while not stop.is_set():
            if not await takings.take(oracle, 3):
                await asyncio.sleep(0.05)
    finally:
        await bus.close()


async def _given(takings: Takings, more: int, within_s: float) -> float:
    """Seconds until so many more timestamps were taken."""
    wanted = len(takings.all) + more

    async def there() -> bool:
        return len(takings.all) >= wanted

    return await eventually(there, within_s, f"{more} more timestamps")


@pytest.mark.full
def test_timestamps_keep_their_order_over_five_kills_under_two_clients(tmp_path: Path) -> None:
    async def main() -> None:
        takings, stop = Takings(), asyncio.Event()
        with nats_server(tmp_path) as server:
            registry = Registry(server, tmp_path / "registry")
            registry.start()
            asking = [asyncio.ensure_future(_ask(server, takings, stop)) for _ in range(2)]
            try:
                await _given(takings, 200, 30)
                for _ in range(KILLS):
                    registry.kill()
                    registry.start()
                    away_s = await _given(takings, 200, 30)
                    print(f"timestamps again {away_s:.1f} s after the kill")
                assert WAITS not in registry.log.read_text(), "its own lease needs no wait"
            finally:
                stop.set()
                registry.kill()
                await asyncio.gather(*asking)
        takings.check()

    asyncio.run(main())


def test_the_second_stops_and_names_the_first_which_gives_its_lease_back(tmp_path: Path) -> None:
    async def main() -> None:
        with nats_server(tmp_path) as server:
            first = Registry(server, tmp_path / "first", "--node-id", "r-first")
            second = Registry(server, tmp_path / "second")
            first.start()
            try:
                async with living(server, tmp_path) as bus:
                    oracle = RegistryOracle(bus, CLUSTER, timeout_s=0.5)
                    last = await fresh_eventually(oracle, 20)
                    second.start()
                    assert await asyncio.to_thread(second.ended) == EXIT_RESTART
                    told = second.log.read_text()
                    assert "registry r-first at 127.0.0.1:" in told
                    assert "run one registry for a cluster" in told
                    assert await fresh_eventually(oracle, 10) > last
                    assert first.end(signal.SIGTERM) == EXIT_OK
                    second.log.unlink()
                    second.start()
                    began = time.monotonic()
                    assert await fresh_eventually(oracle, 20) > last
                    print(f"the next one leads {time.monotonic() - began:.1f} s after its start")
                    assert WAITS not in second.log.read_text()
            finally:
                first.kill()
                second.kill()

    asyncio.run(main())


def test_one_that_was_frozen_stops_and_the_order_holds(tmp_path: Path) -> None:
    async def main() -> None:
        takings, stop = Takings(), asyncio.Event()
        with nats_server(tmp_path) as server:
            first, second = (Registry(server, tmp_path / name) for name in ("first", "second"))
            first.start()
            asking = [asyncio.ensure_future(_ask(server, takings, stop)) for _ in range(2)]
            try:
                async with living(server, tmp_path, pump("p1")) as bus:
                    await eventually(lambda: all_online(bus, "p1"), 25, "p1 is online")
                    await _given(takings, 200, 20)
                    first.freeze()
                    second.start()
                    took = await _given(takings, 200, 30)
                    print(f"the second one leads {took:.1f} s after its start")
                    first.thaw()
                    assert await asyncio.to_thread(first.ended) == EXIT_RESTART
                    assert "took cluster" in first.log.read_text()
                    await _given(takings, 200, 20)
                    async with living(server, tmp_path, pump("p2")):
                        await eventually(lambda: all_online(bus, "p1", "p2"), 25, "p2 is online")
                    assert second.end(signal.SIGTERM) == EXIT_OK
            finally:
                stop.set()
                first.kill()
                second.kill()
                await asyncio.gather(*asking)
        takings.check()

    asyncio.run(main())
