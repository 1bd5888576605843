"""What a Pump does while the power may go: short lives that take every path to its disk. Each is
played once with a recorder; every instant between two of its I/O operations is a moment to lose
power in.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

import msgspec

from tests.crash.check import look
from tests.crash.model import meaning
from tests.crash.pump import CONFIG, Machine, Pump, files_of, play
from tests.crash.recorder import Moment, Promise, Recorder
from tests.unit.pump.rig import commit, prewrite, rollback
from tidelog import record
from tidelog.timestamps import compose
from tidelog_pump.config import PumpConfig, StorageConfig
from tidelog_pump.log.segments import CLOSE_BYTES
from tidelog_pump.parts import INDEX

FIRST_MS = 1_795_219_000_000
NOTHING = Promise((), 0)
ODD = record.footer(1) + record.header(b"no record") + record.footer((1 << 64) - 1)
"""Bytes in rows that look like the framing around them."""


class PumpLife(NamedTuple):
    config: PumpConfig
    live: Callable[[Machine, Recorder], Awaitable[None]]


def binlogs(seed: int, count: int, most: int = 900) -> Iterator[bytes]:
    """About `count` payloads of interleaved transactions: some commit at once, some late, some
    roll back or come twice, some stay open; rows of 0 to `most` bytes."""
    rng = random.Random(seed)
    ts, waiting = compose(FIRST_MS), list[int]()
    for _ in range(count):
        ts += rng.randrange(1, 5)
        fate = rng.random()
        if waiting and fate < 0.42:
            start = waiting.pop(rng.randrange(len(waiting)))
            yield rollback(start) if fate < 0.06 else commit(start, ts)
        elif waiting and fate < 0.48:
            yield prewrite(rng.choice(waiting), b"a second copy")
        else:
            size = rng.choice((0, 7, 60, rng.randrange(most), most))
            rows = (rng.randbytes(size // 3) + ODD * 30)[:size]
            waiting.append(ts)
            yield prewrite(ts, rows)


async def load(pump: Pump, recorder: Recorder, payloads: list[bytes], groups: list[int]) -> None:
    """Batches of these sizes, one after the other."""
    at = 0
    for size in groups:
        batch = payloads[at : at + size]
        at += size
        if batch:
            await recorder.append(pump, batch)
    await pump.idle()


async def running(machine: Machine, recorder: Recorder) -> Pump:
    pump = Pump(machine)
    await pump.started()
    recorder.readable(await look(pump, recorder.promise))
    return pump


async def _append(machine: Machine, recorder: Recorder) -> None:
    pump = await running(machine, recorder)
    await load(pump, recorder, list(binlogs(1, 60)), [1, 1, 2, 5, 1, 12, 3, 20, 1, 9])
    await load(pump, recorder, list(binlogs(2, 2, 6000)), [2])
    await pump.kill()


async def _rotate(machine: Machine, recorder: Recorder) -> None:
    pump = await running(machine, recorder)
    await load(pump, recorder, list(binlogs(3, 48)), [1, 3, 2, 6, 1, 2, 8, 1, 4, 2, 1, 1, 6, 10])
    await pump.kill()


async def _seal(machine: Machine, recorder: Recorder) -> None:
    """Clean ends, of a segment that is small and of one that is large enough for a footer."""
    for life, most in enumerate((200, 30_000, 900)):
        pump = await running(machine, recorder)
        await load(pump, recorder, own(life, list(binlogs(4 + life, 10, most))), [1, 4, 2, 3])
        if most > 900:
            start = compose(FIRST_MS) + (life << 30) + (1 << 20)
            await recorder.append(pump, [prewrite(start, bytes(CLOSE_BYTES // 2))])
            await recorder.append(pump, [prewrite(start + 1, ODD * (CLOSE_BYTES // 2 // len(ODD)))])
        await pump.stop()
        recorder.note()
    closed = {path for path in files_of(machine) if path.endswith(".vlog")}
    assert len(closed) == 2, f"none was closed: {closed}"
    pump = await running(machine, recorder)
    await pump.kill()


def own(life: int, payloads: list[bytes]) -> list[bytes]:
    """Of one life: no timestamp of another."""
    from tidelog_proto.binlog_pb2 import Binlog

    moved = []
    for payload in payloads:
        binlog = Binlog.FromString(payload)
        binlog.start_ts += life << 30
        binlog.commit_ts += (life << 30) if binlog.commit_ts else 0
        moved.append(binlog.SerializeToString())
    return moved


async def _index(machine: Machine, recorder: Recorder) -> None:
    """Many small writes to the index over two lives, the second killed process's restart too."""
    for life in range(2):
        pump = await running(machine, recorder)
        await load(pump, recorder, own(life, list(binlogs(8 + life, 40, 40))), [1, 2] * 14)
        await pump.kill()
    pump = await running(machine, recorder)
    await look(pump, recorder.promise)
    await pump.kill()


async def _chaser(machine: Machine, recorder: Recorder) -> None:
    """An index so slow that the chaser takes over: the log gets far ahead of it, then it catches
    up."""
    pump = await running(machine, recorder)
    payloads = list(binlogs(15, 36, 200))
    await load(pump, recorder, payloads[:8], [2] * 4)
    machine.indexes[INDEX].slow = True
    for at in range(8, 36, 4):
        await recorder.append(pump, payloads[at : at + 4])
    handover = pump.actor("writer")._handover
    assert handover.chased
    machine.indexes[INDEX].slow = False
    while handover.chased:  # noqa: ASYNC110 (on the virtual clock)
        await asyncio.sleep(0.05)
    await recorder.append(pump, closing(payloads)[:1])
    await pump.idle()
    await look(pump, recorder.promise)
    await pump.kill()


async def _first_start(machine: Machine, recorder: Recorder) -> None:
    recorder.note()
    pump = await running(machine, recorder)
    await load(pump, recorder, list(binlogs(11, 4, 100)), [1, 3])
    await pump.stop()
    recorder.note()


async def _unsynced(machine: Machine, recorder: Recorder) -> None:
    """sync-log off: an ack promises nothing, but a start never fails, and never serves what the
    index remembers of a log that is gone."""
    pump = await running(machine, recorder)
    await load(pump, recorder, list(binlogs(12, 30, 500)), [1, 3, 2, 6, 1, 2, 8, 4, 3])
    await pump.kill()
    pump = await running(machine, recorder)
    await load(pump, recorder, own(1, list(binlogs(13, 12, 500))), [1, 3, 2, 6])
    await pump.kill()


async def _marks(machine: Machine, recorder: Recorder) -> None:
    """Timestamps so far apart that there are many marks of W. The log may lose its tail, and the
    next life write others in its place."""
    payloads = spread(list(binlogs(16, 44, 300)))
    pump = await running(machine, recorder)
    await load(pump, recorder, payloads[:30], [1, 3, 2, 6, 1, 2, 8, 4, 3])
    await pump.kill()
    pump = await running(machine, recorder)
    await load(pump, recorder, payloads[30:], [1, 3, 2, 6, 2])
    await pump.stop()
    recorder.note()


def spread(payloads: list[bytes]) -> list[bytes]:
    """Half a second for each step of a timestamp."""
    from tidelog_proto.binlog_pb2 import Binlog

    first, moved = compose(FIRST_MS), []
    for payload in payloads:
        binlog = Binlog.FromString(payload)
        binlog.start_ts = first + (binlog.start_ts - first) * compose(500)
        if binlog.commit_ts:
            binlog.commit_ts = first + (binlog.commit_ts - first) * compose(500)
        moved.append(binlog.SerializeToString())
    return moved


async def _gc(machine: Machine, recorder: Recorder) -> None:
    """Segments go twice; of what is written in between some is open."""
    pump = await running(machine, recorder)
    payloads = list(binlogs(14, 40, 300))
    await load(pump, recorder, payloads, [3] * 14)
    await load(pump, recorder, closing(payloads), [4] * 9)
    went = await pump.collect()
    assert went.segments, went
    recorder.note()
    await load(pump, recorder, own(1, payloads), [3] * 14)
    await load(pump, recorder, own(1, closing(payloads))[:-2], [4] * 9)
    went = await pump.collect()
    assert went.segments, went
    recorder.note()
    await pump.stop()
    recorder.note()


def closing(payloads: list[bytes]) -> list[bytes]:
    """Commits of what is open after these."""
    ts = compose(FIRST_MS) + (1 << 20)
    return [commit(start, ts + at) for at, start in enumerate(meaning(payloads).bounds)]


def _small(segment_bytes: int, *, sync_log: bool = True) -> PumpConfig:
    return PumpConfig(
        node_id=CONFIG.node_id,
        cluster_id=CONFIG.cluster_id,
        oracle="follow",
        segment_bytes=segment_bytes,
        storage=StorageConfig(sync_log=sync_log),
        gc="60s",
        gc_hard_cap="1h",
    )


HASTY = msgspec.structs.replace(
    _small(2000), index_buffer_bytes=600, storage=StorageConfig(slow_write_threshold=0.05)
)
LIFE = _small(700)
"""For lives in which calls fail (see nth.py)."""
APPEND = PumpLife(CONFIG, _append)
ROTATE = PumpLife(_small(1500), _rotate)
SEAL = PumpLife(CONFIG, _seal)
GC = PumpLife(_small(1000), _gc)
INDEX_SAVES = PumpLife(CONFIG, _index)
CHASER = PumpLife(HASTY, _chaser)
FIRST_START = PumpLife(CONFIG, _first_start)
UNSYNCED = PumpLife(_small(2500, sync_log=False), _unsynced)
MARKS = PumpLife(
    msgspec.structs.replace(_small(2500, sync_log=False), clock_skew_s=2.0),
    _marks,
)


def record_moments(life: PumpLife) -> list[Moment]:
    """Play it once; the moments in which the power may go."""

    async def main() -> list[Moment]:
        machine = Machine(life.config)
        recorder = Recorder(machine, NOTHING)
        await life.live(machine, recorder)
        return recorder.moments

    moments: list[Moment] = play(main)
    return moments
