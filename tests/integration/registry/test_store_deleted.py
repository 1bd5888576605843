"""The JetStream store is deleted in mid-run: the registry's state is there again within a lease."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tests.integration.registry.process import Registry, living
from tests.servers import nats_server
from tests.unit.registry.nodes import CLUSTER, drainer, nodes, pump
from tidelog import subjects
from tidelog.errors import TidelogError
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.messages import ONLINE, Consumer, Nodes
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus


async def eventually(check: Callable[[], Awaitable[bool]], within_s: float, what: str) -> float:
    """Seconds until `check` holds; errors of the bus count as not yet."""
    began = time.monotonic()
    while True:
        try:
            if await check():
                return time.monotonic() - began
        except TidelogError as error:
            what = f"{what} ({error})"[:500]
        assert time.monotonic() - began < within_s, what
        await asyncio.sleep(0.05)


async def all_online(bus: Bus, *names: str) -> bool:
    found: Nodes = await nodes(bus)
    living = {s.nodeId for s in found.nodes if s.state == ONLINE and s.isAlive}
    return living >= set(names) and found.settled


async def bucket_states(bus: Bus) -> dict[str, str]:
    entries, _ = await Bucket(bus, subjects.members_bucket(CLUSTER)).entries()
    return {k: msgspec.json.decode(e.value, type=Member).state for k, e in entries.items()}


async def filled(bus: Bus) -> bool:
    return await bucket_states(bus) == {"p1": ONLINE, "p2": ONLINE}


async def feeds_told(bus: Bus) -> bool:
    return (await nodes(bus)).feeds == {"f": 40}


async def readers_told(bus: Bus) -> bool:
    names = {consumer.name for consumer in (await nodes(bus)).consumers}
    return names == {"a1", "drainer"} and await feeds_told(bus)


@pytest.mark.parametrize(
    "registry", ["lives", pytest.param("dies", marks=pytest.mark.full), "loses its directory"]
)
def test_a_deleted_store_is_rebuilt(tmp_path: Path, registry: str) -> None:
    async def main() -> None:
        with nats_server(tmp_path) as server:
            first = Registry(server, tmp_path / "registry")
            second = first
            first.start()
            p1, p2, d1 = pump("p1"), pump("p2"), drainer("d1")
            p1.feeds = {"f": 40}
            d1.resolved_ts, d1.consumers = 50, [Consumer("a1", "f", 45)]
            try:
                async with living(server, tmp_path, p1, p2, d1) as bus:
                    oracle = RegistryOracle(bus, CLUSTER)
                    await eventually(
                        lambda: all_online(bus, "p1", "p2", "d1"), 25, "everybody is online"
                    )
                    await eventually(lambda: feeds_told(bus), 15, "the first heartbeat is heard")
                    before = await fresh_eventually(oracle, 15)
                    if registry != "lives":
                        first.kill()
                    server.kill()
                    server.wipe()
                    if registry == "loses its directory":
                        second = Registry(server, tmp_path / "another")
                    server.start()
                    if registry != "lives":
                        second.start()
                    took = await eventually(lambda: filled(bus), 15, "the bucket is filled again")
                    took += await eventually(
                        lambda: all_online(bus, "p1", "p2", "d1"), 15, "all are back and settled"
                    )
                    print(f"{registry}: settled after {took:.1f} s")
                    assert await fresh_eventually(oracle, 15) > before
                    await eventually(lambda: readers_told(bus), 15, "all readers are known")
                    assert (await nodes(bus)).safe_point in (0, 45)
                    assert [state for state, _ in p1.told] == [ONLINE] * len(p1.told)
                assert second.end(signal.SIGTERM) == 0
            finally:
                first.kill()
                second.kill()

    asyncio.run(main())


async def fresh_eventually(oracle: RegistryOracle, within_s: float) -> int:
    found: list[int] = []

    async def ask() -> bool:
        found.append(await oracle.fresh())
        return True

    await eventually(ask, within_s, "a timestamp")
    return found[0]
