"""Reading a backlog from one Pump, by NATS as a Drainer does and by gRPC as the original's does.

Nothing is decoded beyond the frame, so that the figure is the Pump's.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import grpc

from bench.binlogs import Timestamps, batches, commit, padded_value, prewrite
from bench.figure import Figure, Limit
from bench.limits import MESSAGE
from bench.stage import CLUSTER, Stage
from tidelog.real.clock import RealClock
from tidelog.subjects import pump as pump_subject
from tidelog_proto.pump_pb2 import Pos, PullBinlogReq, PullBinlogResp
from tidelog_proto.transport_pb2 import PullFrame, PullRequest, WriteBatchResult

SECTION = "pull"
SIZES = ((MESSAGE, 200_000), (4 << 10, 40_000))
"""Bytes of a Prewrite, transactions of the backlog."""
AIM = 100_000.0
ORIGINAL = "62–68k txn/s, 105 MB/s"
FRAME_BYTES = 512 << 10
GROUP = 400
IN_FLIGHT = 4


class Read(NamedTuple):
    transactions: int
    bytes: int
    seconds: float


async def measure(
    directory: Path, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    figures: list[Figure] = []
    for size, count in SIZES:
        place = directory / str(size)
        async with Stage(place, oracle="follow", profile=profile) as stage:
            await stage.start("registry", "pump-1")
            last_ts = await fill(stage, size, int(count * share))
            for name, read, limit in (
                ("NATS", by_nats, "nats-64-65536"),
                ("gRPC PullBinlogs", by_grpc, "grpc-64-65536"),
            ):
                cpu = stage.cpu()
                found = await read(stage, last_ts)
                rate = found.transactions / found.seconds
                figures.append(
                    Figure(
                        SECTION,
                        f"{name}, Prewrites of {size} B",
                        rate,
                        "txn/s",
                        limits.get(limit),
                        AIM if size == MESSAGE and name == "NATS" else None,
                        original=ORIGINAL if size == MESSAGE else "",
                        usage=cpu.usage(),
                        note=f"{found.bytes / found.seconds / 1e6:.0f} MB/s",
                    )
                )
            stage.check()
    return figures


async def fill(stage: Stage, size: int, count: int) -> int:
    """Write so many transactions; returns the last commit_ts."""
    timestamps = Timestamps(RealClock().wall_ms())
    value = padded_value(size, timestamps.next())
    last_ts = 0
    for start in range(0, count, GROUP):
        payloads: list[bytes] = []
        for _ in range(min(GROUP, count - start)):
            start_ts, last_ts = timestamps.next(), timestamps.next()
            payloads += prewrite(start_ts, value), commit(start_ts, last_ts)
        await _write(stage, payloads)
    return last_ts


async def _write(stage: Stage, payloads: Sequence[bytes]) -> None:
    subject = pump_subject(CLUSTER, stage.pumps[0], "write")
    bodies = list(batches(0, payloads))
    for at in range(0, len(bodies), IN_FLIGHT):
        answers = await asyncio.gather(
            *(stage.bus.request(subject, b, timeout_s=30) for b in bodies[at : at + IN_FLIGHT])
        )
        for answer in answers:
            for result in WriteBatchResult.FromString(answer.data).results:
                if result.code:
                    raise RuntimeError(f"{result.code}: {result.message}")


async def by_nats(stage: Stage, last_ts: int) -> Read:
    subject = pump_subject(CLUSTER, stage.pumps[0], "pull")
    after_ts = count = size = 0
    began = time.perf_counter()
    commit_ts = offset = 0
    while after_ts < last_ts:
        request = PullRequest(
            after_ts=after_ts,
            want_ts=last_ts,
            max_bytes=FRAME_BYTES,
            wait_ms=1000,
            feed="bench",
            commit_ts=commit_ts,
            offset=offset,
        )
        answer = await stage.bus.request(subject, request.SerializeToString(), timeout_s=30)
        frame = PullFrame.FromString(answer.data)
        if frame.code:
            raise RuntimeError(f"{frame.code}: {frame.message}")
        size += len(answer.data)
        after_ts = frame.resolved_ts
        commit_ts = offset = 0
        last = frame.txns[-1] if frame.txns else None
        if last is not None and last.offset + len(last.payload) < last.total:
            commit_ts, offset = last.commit_ts, last.offset + len(last.payload)
        else:
            count += len(frame.txns)
    return Read(count, size, time.perf_counter() - began)


async def by_grpc(stage: Stage, last_ts: int) -> Read:
    count = size = 0
    began = time.perf_counter()
    async with grpc.aio.insecure_channel(stage.grpc(0)) as channel:
        call = channel.unary_stream("/binlog.Pump/PullBinlogs", None, None)
        stream = call(PullBinlogReq(startFrom=Pos(offset=0)).SerializeToString())
        async for answer in stream:
            entity = PullBinlogResp.FromString(answer).entity
            count += 1
            size += len(answer)
            if entity.meta.commitTs >= last_ts:
                break
        stream.cancel()
    return Read(count, size, time.perf_counter() - began)
