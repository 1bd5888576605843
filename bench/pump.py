"""Durable WriteBinlog per second of one Pump process, beside the RPC limits of the same run.

A caller writes a Prewrite of 256 bytes, waits for its ack, takes a commit_ts and writes the Commit:
half of all calls are Prewrites. The Pump follows (I9), so no oracle is asked.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import grpc

from bench.binlogs import Timestamps, commit, padded_value, prewrite
from bench.figure import Figure, Limit
from bench.load import Step, closed_loop
from bench.stage import CLUSTER, Stage
from tidelog.pump_client import PumpClient
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng
from tidelog.subjects import pump as pump_subject
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp
from tidelog_proto.transport_pb2 import WriteBatch, WriteBatchResult

SIZE = 256
SECTION = "pump"
ORIGINAL = "24.3k (64 clients, p50 2.3, p99 7.9)"

Write = Callable[[bytes], Awaitable[None]]


def two_phases(timestamps: Timestamps, write: Write) -> Step:
    """One transaction a turn: two calls."""
    value = padded_value(SIZE, timestamps.next())

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
    async with Stage(directory, oracle="follow", profile=profile) as stage:
        await stage.start("registry", "pump-1")
        timestamps = Timestamps(RealClock().wall_ms())
        figures = [
            await _one(
                stage, timestamps, by_nats(stage), flight, seconds, limits[f"nats-{flight}"],
                f"NATS, one message each, {flight} in flight", aim,
            )
            for flight, aim in ((1, None), (64, 15_000.0))
        ]  # fmt: skip
        async with PumpClient(stage.bus, CLUSTER, 0, RealClock(), RealRng()) as client:
            figures.append(
                await _one(
                    stage, timestamps, by_client(client), 256, seconds, limits["nats-64"],
                    "PumpClient, coalesced, 256 in flight", 60_000.0,
                )
            )  # fmt: skip
        async with grpc.aio.insecure_channel(stage.grpc(0)) as channel:
            call = channel.unary_unary("/binlog.Pump/WriteBinlog", None, None)
            figures += [
                await _one(
                    stage, timestamps, by_grpc(call), flight, seconds,
                    limits[f"grpc-{flight}"], f"gRPC, {flight} in flight", None,
                    0.75 if flight == 64 else None,
                )
                for flight in (1, 64)
            ]  # fmt: skip
        stage.check()
        return figures


async def _one(
    stage: Stage,
    timestamps: Timestamps,
    write: Write,
    flight: int,
    seconds: float,
    limit: Limit,
    name: str,
    aim: float | None = None,
    of_limit: float | None = None,
) -> Figure:
    cpu = stage.cpu()
    load = await closed_loop(flight, seconds, two_phases(timestamps, write))
    return Figure(
        SECTION,
        name,
        load.rate,
        "binlogs/s",
        limit,
        aim,
        of_limit,
        original={1: "1.8k (p50 0.53, p99 1.1)"}.get(flight, ORIGINAL),
        spread=load.spread,
        usage=cpu.usage(),
    )
