"""From the log to MariaDB, beside what that MariaDB takes of the same rows by itself.

`alone`: the Applier reads the relay log on its disk; only MariaDB runs beside it. `shared`: two
Pumps hold the load; Drainer, NATS, Applier and MariaDB have the two cores together, from the
readiness of Drainer and Applier to the last applied transaction. At half of that rate follows how
long a commit takes to be visible. Each as plain Python, and with what a wheel has compiled.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench import from_relay, limits_apply
from bench.drain import builds, python_path
from bench.figure import Figure, Limit, Spread, Usage, spread
from bench.frames import Changes
from bench.latency import Watcher, floor
from bench.limits_apply import Limits
from bench.limits_sql import connect, run
from bench.progress import Sample, follow, speed
from bench.resident import forget_peak, resident
from bench.shapes import SHAPES, TRANSACTION, Change, Load, Shape, encoded, load
from bench.stage import Stage, actors_of
from bench.tables import DATABASE, BenchTable
from bench.upstream import Upstream
from tests.servers import MariaDb

SECTION = "apply"
GROUP = 200
"""Transactions written at once."""
TIMEOUT_S = 300.0
ORIGINAL = "25–37k rows/s, merged 60–70k"
ALONE_OF_LOAD_DATA, SHARED_OF_LOAD_DATA = 0.6, 0.3
AIM_P99_MS = 100.0
PACE_S = 0.05
"""At half load so often a group of transactions is written."""
PACED_S = 20.0
VERSIONS = {6: "version", 16: "version0"}
"""The column that counts a row's updates, by the table's width; narrower ones have none."""


async def measure(
    directory: Path, db: MariaDb, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    figures: list[Figure] = []
    directory.mkdir(parents=True)  # noqa: ASYNC240
    for number, shape in enumerate(SHAPES):
        made = load(shape, 100 + number, share)
        found = await limits_apply.measure(db, directory, made)
        for build, site in builds():
            await emptied(db)
            place = directory / f"{shape.key}-{build}"
            with python_path(site):
                figures.append(await alone(place / "alone", db, shape, made, found, build))
                await emptied(db)
                shared = Shared(place / "shared", db, shape, made, found, profile)
                figures += [f async for f in shared.figures(build, share, floor(limits))]
    return figures


def url_of(db: MariaDb) -> str:
    return f"mysql://{db.user}:{db.password}@{db.host}:{db.port}/"


async def alone(
    directory: Path, db: MariaDb, shape: Shape, made: Load, limits: Limits, build: str
) -> Figure:
    directory.mkdir(parents=True)  # noqa: ASYNC240
    done = await from_relay.apply(db, url_of(db), directory, made)
    await check(db, made)
    return Figure(
        SECTION,
        f"{shape.name}, from the relay log, {build}",
        done.rate,
        "rows/s",
        limits.load_data,
        shape.aim if build != "plain" else None,
        aim_of_limit=None if shape.aim else ALONE_OF_LOAD_DATA,
        original=ORIGINAL,
        usage=done.usage,
        note=f"{beside(done.rate, limits)}; Applier up to {done.peak:.0f} MiB",
    )


def beside(rate: float, limits: Limits) -> str:
    by_row, ready = limits.by_row.value, limits.ready.value
    return (
        f"{rate / by_row:.1f} × row by row ({by_row / 1000:.1f}k), "
        f"{rate / limits.load_data.value:.2f} of LOAD DATA, {rate / ready:.2f} of ready "
        f"statements ({ready / 1000:.0f}k)"
    )


async def check(db: MariaDb, made: Load) -> None:
    """Raises RuntimeError if the table is not what the load leaves."""
    version = VERSIONS.get(made.table.columns, "0")
    connection = await connect(db)
    try:
        async with connection.cursor() as cursor:
            await cursor.execute(
                f"SELECT COUNT(*), SUM({version}) FROM {DATABASE}.{made.table.name}"
            )
            found = tuple(map(int, await cursor.fetchone()))
    finally:
        connection.close()
    if found != (made.rows, made.versions):
        raise RuntimeError(f"{found} instead of {made.rows, made.versions}")


async def emptied(db: MariaDb) -> None:
    connection = await connect(db)
    try:
        for schema in (DATABASE, "tidb_binlog"):
            await run(connection, f"CREATE OR REPLACE DATABASE {schema}")
            await run(connection, f"DROP DATABASE {schema}")
    finally:
        connection.close()


class Worked(NamedTuple):
    """`before` and `peak`: MiB of the Applier."""

    samples: list[Sample]
    usage: Usage
    before: float
    peak: float


class Shared:
    """One shape through everything."""

    def __init__(
        self,
        directory: Path,
        db: MariaDb,
        shape: Shape,
        made: Load,
        limits: Limits,
        profile: str,
    ) -> None:
        self._directory = directory
        self._db = db
        self._shape = shape
        self._load = made
        self._limits = limits
        self._profile = profile

    async def figures(self, build: str, share: float, floor: Limit) -> AsyncIterator[Figure]:
        async with Stage(
            self._directory, url_of(self._db), pumps=2, profile=self._profile
        ) as stage:
            stage.watch("mariadb", self._db.pid)
            await stage.start("registry", *stage.pumps)
            upstream = Upstream(stage.bus, stage.pumps)
            await upstream.create_database()
            table = await upstream.create_table(self._load.table.info.id, self._shape.columns)
            present = await written(upstream, table, self._load.present)
            await self._applied(stage, [*present, await upstream.now()])
            commit_ts = await written(upstream, table, self._load.measured)
            figure = self._figure(build, await self._applied(stage, commit_ts))
            await check(self._db, self._load)
            yield figure
            if self._shape.key == "insert":
                half = await self._half_load(stage, upstream, table, figure.value / 2, share)
                yield msgspec.structs.replace(half, name=f"{half.name}, {build}", limit=floor)

    async def _applied(self, stage: Stage, commit_ts: Sequence[int]) -> Worked:
        """Start both, until all of these are applied, and stop them. The Drainer comes last: else
        it would be through before the clock starts."""
        await stage.start("applier", "drainer")
        applier = stage.pid("applier")
        forget_peak(applier)
        before = resident(applier, "VmRSS")
        cpu = stage.cpu()
        done = Applied(stage, commit_ts).count
        total = len(commit_ts)
        samples = [s async for s in follow(done, total, stage.check, TIMEOUT_S)]
        usage, peak = cpu.usage(), resident(applier, "VmHWM")
        for name in ("applier", "drainer"):
            await stage.stop(name)
        return Worked(samples, usage, before, peak)

    def _figure(self, build: str, worked: Worked) -> Figure:
        rate = speed(worked.samples) * TRANSACTION
        return Figure(
            SECTION,
            f"{self._shape.name}, two cores shared, {build}",
            rate,
            "rows/s",
            self._limits.load_data,
            aim_of_limit=SHARED_OF_LOAD_DATA,
            original=ORIGINAL,
            usage=worked.usage,
            note=f"{beside(rate, self._limits)}; "
            f"Applier from {worked.before:.0f} to {worked.peak:.0f} MiB",
        )

    async def _half_load(
        self,
        stage: Stage,
        upstream: Upstream,
        table: BenchTable,
        rate: float,
        share: float,
    ) -> Figure:
        """`rate` rows a second."""
        await stage.start("drainer", "applier")
        connection = await connect(self._db)
        watcher = Watcher(connection, table.name)
        watching = asyncio.get_running_loop().create_task(watcher.run())
        try:
            paced = Paced(upstream, table, watcher, self._load.rows)
            cpu = stage.cpu()
            found = await paced.run(rate, max(5.0, PACED_S * share))
            usage = cpu.usage()
        finally:
            watching.cancel()
            connection.close()
            for name in ("applier", "drainer"):
                await stage.stop(name)
        return Figure(
            SECTION,
            "commit to visible at half of that rate, p99",
            found.p99_ms,
            "ms",
            aim=AIM_P99_MS,
            lower_is_better=True,
            spread=found,
            usage=usage,
            units_per_s=rate,
            note=f"{rate:.0f} rows/s",
        )


async def written(
    upstream: Upstream, table: BenchTable, transactions: Sequence[Sequence[Change]]
) -> list[int]:
    """Their commit_ts, ascending; the Pumps hold them."""
    found: list[int] = []
    for at in range(0, len(transactions), GROUP):
        group = [encoded(table, changes) for changes in transactions[at : at + GROUP]]
        found += await upstream.transactions(table, group)
    return found


class Applied:
    """How many of these transactions the Applier says are applied."""

    def __init__(self, stage: Stage, commit_ts: Sequence[int]) -> None:
        self._url = stage.status_url("applier")
        self._commit_ts = commit_ts

    async def count(self) -> int:
        at = await asyncio.get_running_loop().run_in_executor(None, applied_ts, self._url)
        return bisect_right(self._commit_ts, at)


def applied_ts(url: str) -> int:
    """Raises RuntimeError if the Applier has stopped."""
    applier = actors_of(url)["applier"]
    if applier.get("stopped"):
        raise RuntimeError(f"the Applier has stopped: {applier['error']}")
    return int(applier.get("applied_ts", 0))


class Paced:
    """Inserts on a schedule, whatever becomes of those before; the last row of each group is
    watched."""

    def __init__(self, upstream: Upstream, table: BenchTable, watcher: Watcher, first: int) -> None:
        self._upstream = upstream
        self._table = table
        self._watcher = watcher
        self._next = first
        self._acked: dict[int, float] = {}

    async def run(self, rate: float, seconds: float) -> Spread:
        """Commit's ack to visibility, of groups. Raises TimeoutError if rows never come."""
        loop = asyncio.get_running_loop()
        each = max(1, round(rate * PACE_S / TRANSACTION))
        # Encoded before: that is a writer's own work, and dearer than all that is measured.
        groups = [self._encoded(each) for _ in range(int(seconds / PACE_S))]
        due = loop.time()
        async with asyncio.TaskGroup() as tasks:
            for row, group in groups:
                tasks.create_task(self._write(row, group))
                due += PACE_S
                await asyncio.sleep(due - loop.time())
        await self._watcher.caught_up()
        seen = self._watcher.seen
        return spread([max(0.0, seen[row] - at) for row, at in self._acked.items()])

    def _encoded(self, count: int) -> tuple[int, list[Changes]]:
        """That many transactions, and their last row."""
        first, self._next = self._next, self._next + count * TRANSACTION
        group = [
            encoded(self._table, [Change(n, None, 0) for n in range(at, at + TRANSACTION)])
            for at in range(first, self._next, TRANSACTION)
        ]
        return self._next - 1, group

    async def _write(self, row: int, group: list[Changes]) -> None:
        self._watcher.expect(row)
        await self._upstream.transactions(self._table, group)
        self._acked[row] = time.perf_counter()
