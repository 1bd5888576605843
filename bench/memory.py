"""How much memory a Pump takes: for one Prewrite of 1 GiB, and for ten million small ones, and
what a Drainer takes (drain_memory.py). An Applier's is in apply_memory.py.

Not part of a plain run: it takes several minutes. `python -m bench memory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bench import drain_memory
from bench.binlogs import KEY, Timestamps, commit
from bench.figure import Figure, Limit
from bench.limits import MESSAGE
from bench.pull import by_nats, fill
from bench.resident import AIM, SECTION, forget_peak, grown, itself, resident
from bench.stage import Stage
from bench.upstream import write_by_grpc
from tidelog.real.clock import RealClock
from tidelog_proto.binlog_pb2 import Binlog, Prewrite

HUGE = 1 << 30
SMALL = 10_000_000


async def measure(
    directory: Path, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    figures: list[Figure] = []
    async with Stage(directory / "huge", oracle="follow", profile=profile) as stage:
        await stage.start("registry", "pump-1")
        pid, size = stage.pid("pump-1"), int(HUGE * share)
        before = resident(pid, "VmRSS")
        last_ts = await _huge(stage, size)
        figures.append(_over("written by gRPC", size, resident(pid, "VmHWM"), before))
        forget_peak(pid)
        before = resident(pid, "VmRSS")
        read = await by_nats(stage, last_ts)
        if read.bytes < size:
            raise RuntimeError(f"{read.bytes} bytes came back")
        peak = resident(pid, "VmHWM")
        figures.append(grown(f"a transaction of {size >> 20} MiB pulled", peak, before))
    async with Stage(directory / "small", oracle="follow", profile=profile) as stage:
        await stage.start("registry", "pump-1")
        pid, count = stage.pid("pump-1"), int(SMALL * share)
        before = resident(pid, "VmRSS")
        last_ts = await fill(stage, MESSAGE, count)
        figures.append(grown(f"{count} small transactions", resident(pid, "VmHWM"), before))
        await by_nats(stage, last_ts)
        figures.append(grown("the same, pulled", resident(pid, "VmHWM"), before))
        stage.check()
    figures += await drain_memory.measure(directory, share, profile)
    return figures


def _over(what: str, size: int, peak: float, before: float) -> Figure:
    """An aim of the whole size alone, as it follows the size: grpc.aio holds what it receives three
    times, as slices, a bytearray and bytes."""
    mib = size / (1 << 20)
    over = peak - before - mib
    name = f"a Prewrite of {size >> 20} MiB {what}, over the message itself"
    note = f"peak {peak:.0f} MiB, before {before:.0f} MiB; {over / mib:.1f} x the message"
    aim = AIM if size >= HUGE else None
    return Figure(
        SECTION, name, over, "MiB", itself(before), aim=aim, lower_is_better=True, note=note
    )


async def _huge(stage: Stage, size: int) -> int:
    timestamps = Timestamps(RealClock().wall_ms())
    start_ts, commit_ts = timestamps.next(), timestamps.next()
    big = Binlog(tp=Prewrite, start_ts=start_ts, prewrite_key=KEY, prewrite_value=bytes(size))
    await write_by_grpc(stage.grpc(0), big.SerializeToString())
    await write_by_grpc(stage.grpc(0), commit(start_ts, commit_ts))
    return commit_ts
