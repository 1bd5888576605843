"""A Pump in this process on the machine's disk, RocksDB, a private NATS server and gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import grpc

from tests.unit.pump.rig import Client, Registry
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports
from tidelog.supervisor import Supervisor
from tidelog_proto.pump_pb2 import (
    PullBinlogReq,
    PullBinlogResp,
    WriteBinlogReq,
    WriteBinlogResp,
)
from tidelog_pump.config import PumpConfig
from tidelog_pump.edges.grpc_edge import OPTIONS
from tidelog_pump.service import build


@contextlib.asynccontextmanager
async def running(config: PumpConfig, directory: Path, url: str) -> AsyncIterator[Supervisor]:
    """A Pump until the end of the block, then its graceful stop. An error of it is raised."""
    bus = await NatsBus.connect(url, timeout_s=10)
    tree = build(config, real_ports(config, RealDisk(directory), bus))
    stop = asyncio.Event()
    task = asyncio.create_task(tree.run(stop))
    try:
        yield tree
    finally:
        stop.set()
        await task
        await bus.close()


@contextlib.asynccontextmanager
async def registry_and_client(url: str, node: str) -> AsyncIterator[tuple[Registry, Client]]:
    bus = await NatsBus.connect(url, timeout_s=10)
    registry = Registry(RealClock().wall_ms)
    await registry.start(bus)
    try:
        yield registry, Client(bus, node)
    finally:
        await bus.close()


class GrpcClient:
    """What a TiDB and an original Drainer do, over raw bytes."""

    def __init__(self, target: str, cluster_id: int) -> None:
        self.channel = grpc.aio.insecure_channel(target, options=OPTIONS)
        self.cluster_id = cluster_id
        self._write = self.channel.unary_unary("/binlog.Pump/WriteBinlog", None, None)
        self._pull = self.channel.unary_stream("/binlog.Pump/PullBinlogs", None, None)

    async def write(self, payload: bytes) -> str:
        """The errmsg. Raises grpc.aio.AioRpcError."""
        request = WriteBinlogReq(clusterID=self.cluster_id, payload=payload)
        return WriteBinlogResp.FromString(await self._write(request.SerializeToString())).errmsg

    async def pull(self, after_ts: int) -> AsyncIterator[PullBinlogResp]:
        request = PullBinlogReq(clusterID=self.cluster_id)
        request.startFrom.offset = after_ts
        async for response in self._pull(request.SerializeToString()):
            yield PullBinlogResp.FromString(response)

    async def close(self) -> None:
        await self.channel.close(None)


def ascending(values: Iterable[int]) -> bool:
    listed = list(values)
    return all(a < b for a, b in itertools.pairwise(listed))


async def until(condition: Callable[[], bool], within_s: float = 15.0) -> None:
    """Wait for something that only shows in a status."""
    async with asyncio.timeout(within_s):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)
