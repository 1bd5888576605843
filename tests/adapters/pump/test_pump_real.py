"""A Pump at real servers: gRPC's statuses and streams, late pairs, an index that does not open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import msgspec
import pytest
from structlog.testing import capture_logs

from tests.adapters.pump.rig import (
    GrpcClient,
    registry_and_client,
    running,
    until,
)
from tests.servers import nats_server
from tests.unit.pump.rig import CLUSTER, NODE, commit, prewrite
from tidelog.messages import PAUSED
from tidelog.real.clock import RealClock
from tidelog.timestamps import compose
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.pump_pb2 import PullBinlogResp
from tidelog_pump.config import PumpConfig, StorageConfig


def config(directory: Path, cluster_id: int) -> PumpConfig:
    return PumpConfig(
        cluster=CLUSTER,
        node_id=NODE,
        cluster_id=cluster_id,
        oracle="follow",
        grpc_addr="127.0.0.1:0",
        socket=str(directory / "pump.sock"),
        segment_bytes=4 << 20,
        storage=StorageConfig(stop_write_at_available_space=1),
    )


def test_grpc_statuses_and_a_large_transaction(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        settings = config(tmp_path, 7)
        base = compose(RealClock().wall_ms())
        value = bytes(range(256)) * (40 << 10)
        async with (
            registry_and_client(url, NODE) as (registry, client),
            running(settings, tmp_path / "data", url) as tree,
        ):
            await client.until_online()
            address = str(tree.status()["grpc"]["bound"])
            ours, *foreign = (GrpcClient(address, cluster_id) for cluster_id in (7, 9, 8))
            assert await ours.write(b"") == ""
            assert await ours.write(prewrite(base, value)) == ""
            await client.done(commit(base, base + 1))
            with capture_logs() as logs:
                for stranger in foreign * 2:
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await stranger.write(prewrite(base + 5))
            assert [one["event"] for one in logs].count("a writer is refused") == 2
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "cluster id 8" in (refused.value.details() or "")
            registry.state = PAUSED
            await until(lambda: tree.status()["writer"]["state"] == PAUSED)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await ours.write(prewrite(base + 6))
            assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
            (txn,) = await client.pull_up_to(base + 1)
            assert Binlog.FromString(txn.payload).prewrite_value == value
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await anext(ours.pull(-5))
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            async for response in ours.pull(0):
                if response.entity.meta.startTs == base:
                    assert response.entity.payload == txn.payload
                    break
            await ours.close()
            for stranger in foreign:
                await stranger.close()

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))


async def commits(stream: AsyncIterator[PullBinlogResp], up_to: int) -> list[int]:
    """The commit_ts that come, without fakes, until `up_to`."""
    found: list[int] = []
    while not found or found[-1] < up_to:
        meta = (await anext(stream)).entity.meta
        found += [meta.commitTs] * (meta.startTs != meta.commitTs)
    return found


def test_a_late_pair_ends_the_streams_that_are_past_it(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        settings = msgspec.structs.replace(config(tmp_path, 7), grpc_addr="")
        base = compose(RealClock().wall_ms())
        async with (
            registry_and_client(url, NODE) as (_, client),
            running(settings, tmp_path / "data", url),
        ):
            await client.until_online()
            grpc_client = GrpcClient(f"unix:{settings.socket}", 7)
            await client.done(
                commit(base, base + 5), prewrite(base + 9), commit(base + 9, base + 12)
            )
            past, above = grpc_client.pull(0), grpc_client.pull(base + 7)
            for reader in (past, above):
                assert (await anext(reader)).entity.meta.commitTs == base + 12
            await client.done(prewrite(base))
            await client.until_state(base, "committed")
            await client.done(prewrite(base + 20), commit(base + 20, base + 30))
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await commits(past, base + 40)
            assert ended.value.code() is grpc.StatusCode.DATA_LOSS
            # One that began above it goes on, and one that begins below it gets it.
            assert await commits(above, base + 30) == [base + 30]
            every = [base + 5, base + 12, base + 30]
            assert await commits(grpc_client.pull(0), base + 30) == every
            await grpc_client.close()

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))


def test_an_index_that_does_not_open_is_built_again_from_the_segments(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        settings = msgspec.structs.replace(config(tmp_path, 7), grpc_addr="", socket="")
        base = compose(RealClock().wall_ms())
        index = tmp_path / "data" / "kv"
        async with registry_and_client(url, NODE) as (_, client):
            async with running(settings, tmp_path / "data", url):
                await client.until_online()
                await client.done(prewrite(base), commit(base, base + 3), prewrite(base + 1))
            for broken in ("MANIFEST-*", "CURRENT", "*.sst"):
                for file in index.glob(broken):
                    file.write_bytes(b"")
                async with running(settings, tmp_path / "data", url):
                    await client.until_online()
                    await client.done(commit(base + 1, base + 5), prewrite(base + 7))
                    found = await client.pull_up_to(base + 5)
                    assert [txn.commit_ts for txn in found] == [base + 3, base + 5]
                assert not index.with_name("kv.dropped").exists()

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))


def test_an_idle_stream_gets_a_fake_at_resolved_and_ends_gracefully(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        settings = msgspec.structs.replace(config(tmp_path, 7), grpc_addr="")
        base = compose(RealClock().wall_ms())
        async with registry_and_client(url, NODE) as (_, client):
            seen: list[tuple[int, int]] = []

            async def read(reader: GrpcClient) -> None:
                async for response in reader.pull(0):
                    meta = response.entity.meta
                    seen.append((meta.startTs, meta.commitTs))

            async with running(settings, tmp_path / "data", url):
                await client.until_online()
                reader = GrpcClient(f"unix:{settings.socket}", 7)
                await client.done(prewrite(base), commit(base, base + 3))
                await client.pull(0, max_bytes=0, want_ts=base + 9)
                reading = asyncio.create_task(read(reader))
                await until(lambda: len(seen) == 2)
            assert seen == [(base, base + 3), (base + 9, base + 9)]
            await asyncio.wait_for(reading, 10)
            await reader.close()

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))
