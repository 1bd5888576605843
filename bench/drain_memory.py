"""How much memory a Drainer takes: for one transaction of 1 GiB, and behind a backlog of 2 GiB."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from bench.backlog import Published
from bench.binlogs import commit, large_prewrite
from bench.figure import Figure
from bench.resident import forget_peak, grown, resident
from bench.stage import CLUSTER, Stage
from bench.tables import BenchTable
from bench.upstream import Upstream, write_by_grpc
from tidelog.changes import H_LAST_TS
from tidelog.oracle import RegistryOracle
from tidelog.subjects import changes_stream, changes_txn

HUGE = 1 << 30
HUGE_ROW = 320
SCHEMA_VERSION = 2
"""After the database and its table."""
PUBLISHED_S = 1800.0
BACKLOG = 2 << 30
ROW = 4 << 10
GROUP = 200
FEED = "main"


async def measure(directory: Path, share: float, profile: str) -> list[Figure]:
    figures = await large(directory / "large", [int(HUGE * share)], profile)
    async with Stage(directory / "backlog", pumps=2, profile=profile) as stage:
        await stage.start("registry", *stage.pumps)
        figures += await _backlog(stage, int(BACKLOG * share))
        stage.check()
    return figures


async def large(directory: Path, sizes: Sequence[int], profile: str) -> list[Figure]:
    """Transactions of so many bytes, each beside a Drainer of its own before it: what one leaves
    behind with the process would hide what the next one takes."""
    directory.mkdir(parents=True, exist_ok=True)  # noqa: ASYNC240
    return [await _large(directory / f"{size}", size, profile) for size in sizes]


async def _large(directory: Path, size: int, profile: str) -> Figure:
    async with Stage(directory, profile=profile) as stage:
        await stage.start("registry", "pump-1", "drainer")
        upstream = Upstream(stage.bus, stage.pumps)
        await upstream.create_database()
        table = await upstream.create_table(100, 2)
        await _published(
            stage, await upstream.transaction(table, [("c", table.insert(1))], "pump-1")
        )
        pid = stage.pid("drainer")
        before = resident(pid, "VmRSS")
        forget_peak(pid)
        await _published(stage, await huge(stage, table, size // HUGE_ROW, size))
        name = f"Drainer: a transaction of {size >> 20} MiB, {size // HUGE_ROW} rows, published"
        return grown(name, resident(pid, "VmHWM"), before)


async def huge(stage: Stage, table: BenchTable, rows: int, size: int) -> int:
    """One transaction of `rows` rows and about `size` bytes on the first Pump; its commit_ts."""
    oracle = RegistryOracle(stage.bus, CLUSTER)
    start_ts = await oracle.take(1)
    big = large_prewrite(table, SCHEMA_VERSION, start_ts, rows, size)
    await write_by_grpc(stage.grpc(0), big)
    commit_ts = await oracle.take(1)
    await write_by_grpc(stage.grpc(0), commit(start_ts, commit_ts))
    return commit_ts


async def _published(stage: Stage, commit_ts: int) -> None:
    async with asyncio.timeout(PUBLISHED_S):
        while True:
            newest = await stage.bus.last_message(changes_stream(FEED), changes_txn(FEED))
            if newest is not None and int(newest.headers[H_LAST_TS]) >= commit_ts:
                return
            stage.check()
            await asyncio.sleep(0.1)


async def _backlog(stage: Stage, size: int) -> list[Figure]:
    """A Drainer that begins behind everything: what it takes after an eighth of it, and at most."""
    upstream = Upstream(stage.bus, stage.pumps)
    await upstream.create_database()
    table = await upstream.create_table(100, 2)
    count, commit_ts = size // ROW, list[int]()
    for first in range(0, count, GROUP):
        numbers = range(first, min(first + GROUP, count))
        rows = [table.codec.encode_insert({"id": n, "note": "x" * ROW}, n) for n in numbers]
        commit_ts += await upstream.transactions(table, [[("c", row)] for row in rows])
    await stage.start("drainer", feed=FEED, changes_max_bytes=64 << 20)
    pid = stage.pid("drainer")
    early = before = resident(pid, "VmRSS")
    published = Published(stage, FEED, commit_ts)
    while (done := await published.count()) < count:
        stage.check()
        if done <= count // 8:
            early = resident(pid, "VmHWM")
        await asyncio.sleep(0.2)
    peak = resident(pid, "VmHWM")
    what = f"a Drainer behind {size >> 20} MiB of {ROW} B rows in two Pumps"
    return [
        grown(f"{what}, published", peak, before),
        grown(f"{what}, beyond its peak in the first eighth", peak, early),
    ]
