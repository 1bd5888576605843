"""Drainers that are gone: a stale entry holds no join up, and one gone for good says what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.integration.membership import processes
from tests.integration.membership.processes import CLUSTER, FEED, Processes
from tests.servers import nats_server
from tidelog.messages import (
    CLOSING,
    OFFLINE,
    ONLINE,
    Consumer,
    NodeStatus,
    SafePoint,
    SafePointRequest,
    decode_reply,
    encode,
)
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus
from tidelog.pump_client import PumpClient
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng
from tidelog.subjects import registry
from tidelog.workload.timestamps import fresh
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite

DEADLINE_S = 60.0
DRAINER_NODE = f"drainer-{FEED}"


async def until(bus: Bus, name: str, reached: Callable[[NodeStatus], bool]) -> NodeStatus:
    last: list[NodeStatus] = []
    try:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                last = [node for node in await processes.nodes(bus) if node.nodeId == name]
                if last and reached(last[0]):
                    return last[0]
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"waited in vain for {name}: {last}") from None


def run(directory: Path, body: Callable[[Processes, Bus], Awaitable[None]]) -> None:
    """With a registry, a Pump and a Drainer that serve."""

    async def main(cluster: Processes) -> None:
        await processes.create_feed(cluster.nats.url)
        for service in (cluster.registry, cluster.drainer, cluster.pumps["pump-1"]):
            service.start()
            await asyncio.to_thread(service.wait)
        bus = await NatsBus.connect(cluster.nats.url, timeout_s=10)
        try:
            await body(cluster, bus)
        finally:
            await bus.close()

    with nats_server(directory) as nats:
        cluster = Processes(nats, directory, 2)
        try:
            asyncio.run(main(cluster))
        finally:
            cluster.kill()


async def write_one(bus: Bus) -> None:
    """A transaction that no Drainer has read."""
    clock, oracle = RealClock(), RegistryOracle(bus, CLUSTER)
    async with PumpClient(bus, CLUSTER, 0, clock, RealRng()) as client:
        start_ts = await fresh(oracle, clock, 0)
        await client.write(Binlog(tp=Prewrite, start_ts=start_ts))
        commit_ts = await fresh(oracle, clock, start_ts)
        await client.write(Binlog(tp=Commit, start_ts=start_ts, commit_ts=commit_ts), wait=True)


def test_a_stale_drainer_entry_holds_no_pump_up(tmp_path: Path) -> None:
    async def body(cluster: Processes, bus: Bus) -> None:
        cluster.drainer.kill()
        joining = cluster.pumps["pump-2"]
        joining.start()
        await until(bus, "pump-2", lambda node: node.state == ONLINE and node.isAlive)
        await asyncio.to_thread(joining.wait)
        gone = await until(bus, DRAINER_NODE, lambda node: not node.isAlive)
        assert gone.state == ONLINE, "a lease that ran out is a mark, no state"

    run(tmp_path, body)


def test_a_drainer_gone_for_good_is_named_until_its_feed_is_forgotten(tmp_path: Path) -> None:
    async def body(cluster: Processes, bus: Bus) -> None:
        cluster.drainer.kill()
        await until(bus, DRAINER_NODE, lambda node: not node.isAlive)
        assert await processes.order(bus, DRAINER_NODE, "offline")
        await until(bus, DRAINER_NODE, lambda node: node.state == OFFLINE)
        await write_one(bus)
        assert await processes.order(bus, "pump-1", "offline")
        waiting = await until(bus, "pump-1", lambda node: FEED in node.detail.get("closing", ""))
        assert waiting.state == CLOSING
        assert f"feed {FEED}" in waiting.detail["closing"]
        request = SafePointRequest(Consumer("", FEED, 0), remove=True)
        answer = await bus.request(registry(CLUSTER, "safepoint"), encode(request), timeout_s=10)
        decode_reply(answer.data, SafePoint)
        await until(bus, "pump-1", lambda node: node.state == OFFLINE)

    run(tmp_path, body)
