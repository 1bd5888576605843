"""Durable WriteBinlog per second of one Pump process, beside the RPC limits of the same run.

A caller writes a Prewrite of so many bytes, waits for its ack, takes a commit_ts and writes the
Commit: half of all calls are Prewrites. The Pump follows (I9), so no oracle is asked.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

import grpc

from bench.binlogs import Timestamps, commit, padded_value, prewrite
from bench.figure import Figure, Limit
from bench.limits import FLIGHTS, LARGER, MESSAGE
from bench.load import Step, closed_loop
from bench.stage import CLUSTER, Stage
from tidelog.pump_client import PumpClient
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng
from tidelog.subjects import pump as pump_subject
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp
from tidelog_proto.transport_pb2 import WriteBatch, WriteBatchResult

SECTION = "pump"
ORIGINAL = {
    (1, MESSAGE): "1.8k (p50 0.53, p99 1.1)",
    (64, MESSAGE): "24.3k (64 clients, p50 2.3, p99 7.9)",
    (256, MESSAGE): "24.3k (64 clients, p50 2.3, p99 7.9)",
}

Write = Callable[[bytes], Awaitable[None]]


class Point(NamedTuple):
    """`size`: bytes of a Prewrite. `limit`: a key of the limits."""

    way: str
    flight: int
    size: int
    limit: str
    aim: float | None = None
    of_limit: float | None = None

    @property
    def name(self) -> str:
        how = {"nats": "NATS, one message each", "client": "PumpClient, coalesced", "grpc": "gRPC"}
        size = f", {self.size >> 10} KiB" if self.size != MESSAGE else ""
        return f"{how[self.way]}, {self.flight} in flight{size}"


def points() -> list[Point]:
    """Every way at every size and number of callers; callers that coalesce are always many."""
    found = [
        Point("nats", 64, MESSAGE, "nats-64-256", 15_000.0),
        Point("client", 256, MESSAGE, "nats-256-256", 80_000.0),
        Point("grpc", 64, MESSAGE, "grpc-64-256", of_limit=0.75),
    ]
    for way in ("nats", "grpc"):
        found += [Point(way, f, MESSAGE, f"{way}-{f}-{MESSAGE}") for f in FLIGHTS if f != 64]
        found += [Point(way, f, s, f"{way}-{f}-{s}") for s in LARGER for f in FLIGHTS]
    found += [Point("client", 256, size, f"nats-256-{size}") for size in LARGER]
    order = ("nats", "client", "grpc")
    return sorted(found, key=lambda p: (order.index(p.way), p.size, p.flight))


def two_phases(timestamps: Timestamps, size: int, write: Write) -> Step:
    """One transaction a turn: two calls."""
    value = padded_value(size, timestamps.next())

    async def step(taken: list[float]) -> None:
        start_ts = timestamps.next()
        began = time.perf_counter()
        await write(prewrite(start_ts, value))
        taken.append(time.perf_counter() - began)
        end = commit(start_ts, timestamps.next())
        began = time.perf_counter()
        await write(end)
        taken.append(time.perf_counter() - began)

    return step


def by_nats(stage: Stage) -> Write:
    """One request with one payload each."""
    subject = pump_subject(CLUSTER, stage.pumps[0], "write")

    async def write(payload: bytes) -> None:
        request = WriteBatch(payloads=[payload]).SerializeToString()
        answer = await stage.bus.request(subject, request, timeout_s=10)
        result = WriteBatchResult.FromString(answer.data).results[0]
        if result.code:
            raise RuntimeError(f"{result.code}: {result.message}")

    return write


def by_grpc(call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]) -> Write:
    async def write(payload: bytes) -> None:
        answer = WriteBinlogResp.FromString(
            await call(WriteBinlogReq(payload=payload).SerializeToString())
        )
        if answer.errmsg:
            raise RuntimeError(answer.errmsg)

    return write


def by_client(client: PumpClient) -> Write:
    """Every write is awaited until its ack, Commits too."""

    async def write(payload: bytes) -> None:
        await client.write(payload, wait=True)

    return write


async def measure(
    directory: Path, limits: Mapping[str, Limit], seconds: float, profile: str = ""
) -> list[Figure]:
    """Each way has a Pump of its own."""
    figures: list[Figure] = []
    for way in ("nats", "client", "grpc"):
        chosen = [point for point in points() if point.way == way]
        async with AsyncExitStack() as stack:
            place = directory / way
            stage = await stack.enter_async_context(Stage(place, oracle="follow", profile=profile))
            await stage.start("registry", "pump-1")
            write = await _writer(stage, way, stack)
            timestamps = Timestamps(RealClock().wall_ms())
            for point in chosen:
                figures += await _one(stage, timestamps, write, seconds, limits, point)
            stage.check()
    return figures


async def _writer(stage: Stage, way: str, stack: AsyncExitStack) -> Write:
    if way == "nats":
        return by_nats(stage)
    if way == "client":
        client = PumpClient(stage.bus, CLUSTER, 0, RealClock(), RealRng())
        return by_client(await stack.enter_async_context(client))
    channel = await stack.enter_async_context(grpc.aio.insecure_channel(stage.grpc(0)))
    return by_grpc(channel.unary_unary("/binlog.Pump/WriteBinlog", None, None))


async def _one(
    stage: Stage,
    timestamps: Timestamps,
    write: Write,
    seconds: float,
    limits: Mapping[str, Limit],
    point: Point,
) -> list[Figure]:
    cpu = stage.cpu()
    load = await closed_loop(point.flight, seconds, two_phases(timestamps, point.size, write))
    megabytes = load.rate / 2 * point.size / 1e6
    figure = Figure(
        SECTION,
        point.name,
        load.rate,
        "binlogs/s",
        limits[point.limit],
        point.aim,
        point.of_limit,
        original=ORIGINAL.get((point.flight, point.size), ""),
        spread=load.spread,
        usage=cpu.usage(),
        note=f"{megabytes:.0f} MB/s of Prewrites",
    )
    if (point.way, point.size) != ("client", LARGER[-1]):
        return [figure]
    return [
        figure,
        Figure(
            SECTION,
            "PumpClient, bandwidth of 64 KiB Prewrites",
            megabytes,
            "MB/s",
            limits["append"],
            aim_of_limit=0.6,
        ),
    ]
