"""`transport="grpc"` against real Pumps: every binlog goes to the address that a Pump announces."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.conformance.places import until
from tests.integration.pump_client.cluster import Cluster, cluster
from tests.integration.pump_client.test_workload import pulled
from tidelog.errors import AnotherNode, ForeignCluster, NotOnline
from tidelog.messages import Empty, Nodes, decode_reply, encode
from tidelog.oracle import RegistryOracle
from tidelog.pump_client import PumpClient
from tidelog.pump_client.delivery import way
from tidelog.pump_client.delivery.grpc_way import GrpcWay
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng
from tidelog.subjects import registry
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite

LARGE = 3 << 20
"""Above the bus limit of 1 MiB."""


class NoBus(way.NatsWay):
    """Nothing may go this way."""

    async def write(self, *_: object) -> way.Refusals:
        raise AssertionError("a binlog on the bus")


async def transaction(client: PumpClient, oracle: RegistryOracle, value: bytes = b"v") -> int:
    start_ts = await oracle.fresh(0)
    await client.write(Binlog(tp=Prewrite, start_ts=start_ts, prewrite_value=value))
    commit_ts = await oracle.fresh(start_ts)
    await client.write(Binlog(tp=Commit, start_ts=start_ts, commit_ts=commit_ts))
    return commit_ts


async def write_by(made: Cluster, transport: str) -> list[int]:
    """Small and large transactions, with a Pump killed while one of its Prewrites is open."""
    bus = await NatsBus.connect(made.nats.url, timeout_s=20)
    oracle = RegistryOracle(bus, "default")
    try:
        async with PumpClient(
            bus, "default", 0, RealClock(), RealRng(), transport=transport, write_timeout_s=60
        ) as client:
            await until(lambda: len(client.status()["available"]) == 2)  # type: ignore[arg-type]
            async with asyncio.TaskGroup() as group:
                small = [group.create_task(transaction(client, oracle)) for _ in range(200)]
                large = [
                    group.create_task(transaction(client, oracle, b"x" * LARGE)) for _ in range(3)
                ]
            done = [task.result() for task in (*small, *large)]
            done.append(await _over_a_kill(made, client, oracle))
            assert await client.flush(60)
            return done
    finally:
        await bus.close()


async def _over_a_kill(made: Cluster, client: PumpClient, oracle: RegistryOracle) -> int:
    """It comes back at another port; the Commit finds it there."""
    start_ts = await oracle.fresh(0)
    await client.write(Binlog(tp=Prewrite, start_ts=start_ts))
    node = client.pump_of(start_ts)
    pump = made.pumps[int(node.rpartition("-")[2]) - 1]
    commit_ts = await oracle.fresh(start_ts)
    await asyncio.to_thread(pump.kill)
    await client.write(Binlog(tp=Commit, start_ts=start_ts, commit_ts=commit_ts))
    await asyncio.to_thread(pump.start)
    await asyncio.to_thread(pump.wait)
    return commit_ts


def test_what_is_written_by_grpc_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.pump_client.client.NatsWay", NoBus)
    with cluster(tmp_path) as made:
        done = asyncio.run(write_by(made, "grpc"))
        found, _ = asyncio.run(pulled(made, max(done)))
        assert set(found) == set(done)


def test_large_ones_go_by_grpc_under_nats_too(tmp_path: Path) -> None:
    with cluster(tmp_path) as made:
        done = asyncio.run(write_by(made, "nats"))
        found, _ = asyncio.run(pulled(made, max(done)))
        assert set(found) == set(done)
        assert sum(len(binlog.prewrite_value) == LARGE for binlog in found.values()) == 3


def test_a_refusal_by_grpc_is_typed_as_on_the_bus(tmp_path: Path) -> None:
    async def main(made: Cluster) -> None:
        bus = await NatsBus.connect(made.nats.url, timeout_s=20)
        try:
            clock, rng = RealClock(), RealRng()
            async with PumpClient(bus, "default", 77, clock, rng, transport="grpc") as client:
                await until(lambda: bool(client.status()["online"]))
                with pytest.raises(ForeignCluster):
                    await client.write(Binlog(tp=Prewrite, start_ts=1))
        finally:
            await bus.close()

    with cluster(tmp_path, pumps=1) as made:
        asyncio.run(main(made))


def test_a_pump_at_the_address_of_another_acks_nothing_of_its(tmp_path: Path) -> None:
    """The port of a Pump that moved went to another one, and the client has not heard of it."""

    async def main(made: Cluster) -> None:
        bus = await NatsBus.connect(made.nats.url, timeout_s=20)
        try:
            answer = await bus.request(registry("default", "nodes"), encode(Empty()), timeout_s=20)
            hosts = {node.nodeId: node.host for node in decode_reply(answer.data, Nodes).nodes}
        finally:
            await bus.close()
        commit = Binlog(tp=Commit, start_ts=1, commit_ts=2).SerializeToString()
        for node, refused in (("pump-1", True), ("pump-2", False)):
            grpc = GrpcWay(node, lambda: hosts["pump-2"], 0)
            (refusal,) = await grpc.write([commit if refused else b""], 30.0)
            assert isinstance(refusal, AnotherNode) is refused, refusal
            assert refused or refusal is None
            await grpc.close()

    with cluster(tmp_path) as made:
        asyncio.run(main(made))


def test_a_pump_without_an_address_is_named() -> None:
    async def main() -> None:
        with pytest.raises(Exception, match="p1 announces no gRPC address"):
            await GrpcWay("p1", lambda: "", 0).write([b""], 1.0)

    asyncio.run(main())


def test_the_class_a_pump_names_is_the_error() -> None:
    refused = way.refusal("NotOnline", "paused", definite=True)
    assert isinstance(refused, NotOnline)
    unknown = way.refusal("NotOnline", "paused", definite=False)
    assert unknown is not None
    assert not unknown.definite
    assert way.refusal("", "", definite=True) is None
