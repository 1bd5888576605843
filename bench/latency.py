"""From a Commit's ack to the row's visibility in MariaDB, three Pumps, at three rates.

One process writes and looks: transactions start on a fixed schedule, whatever those before them
do, and a separate connection asks for rows that are not visible yet. Its pause is part of what is
measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import aiomysql

from bench.backlog import NOT_THERE_YET
from bench.figure import Figure, Limit, spread
from bench.limits_sql import connect
from bench.stage import Stage
from bench.tables import DATABASE, BenchTable
from bench.upstream import Upstream
from tests.servers import MariaDb

SECTION = "latency"
PUMPS = 3
LOOK_S = 0.002
LATE_S = 60.0
AIM_P50_MS, AIM_P99_MS = 20.0, 60.0


class Rate(NamedTuple):
    """`original`: p50 / p99 in ms on the reference machine."""

    per_second: int
    seconds: float
    original: str


RATES = (
    Rate(1, 30, "p50 2060, p99 3983"),
    Rate(10, 20, "p50 255, p99 4214"),
    Rate(200, 15, "p50 78, p99 124, max 5962"),
)


class Watcher:
    """Looks for rows until told to end; remembers when it first saw each."""

    def __init__(self, connection: aiomysql.Connection, table: str) -> None:
        self._connection = connection
        self._query = f"SELECT id FROM `{DATABASE}`.`{table}` WHERE id IN "
        self._open: dict[int, None] = {}
        self.seen: dict[int, float] = {}
        self._something = asyncio.Event()
        self._all = asyncio.Event()

    def look_by(self, connection: aiomysql.Connection) -> None:
        """Another connection, when the server has been gone."""
        self._connection = connection

    def expect(self, row: int) -> None:
        self._open[row] = None
        self._something.set()
        self._all.clear()

    async def caught_up(self) -> None:
        """Until every expected row was seen. Raises TimeoutError."""
        async with asyncio.timeout(LATE_S):
            await self._all.wait()

    async def run(self) -> None:
        while True:
            await self._something.wait()
            found = await self._look()
            now = time.perf_counter()
            for row in found:
                if row in self._open:
                    del self._open[row]
                    self.seen[row] = now
            if not self._open:
                self._something.clear()
                self._all.set()
            await asyncio.sleep(LOOK_S)

    async def _look(self) -> list[int]:
        wanted = ",".join(map(str, self._open))
        try:
            async with self._connection.cursor() as cursor:
                await cursor.execute(f"{self._query}({wanted})")
                return [row for (row,) in await cursor.fetchall()]
        except aiomysql.MySQLError as error:
            if error.args[0] in NOT_THERE_YET:
                return []
            raise


def floor(limits: Mapping[str, Limit]) -> Limit:
    """The steps of the way one after another: the pull's answer, the batch, the row."""
    steps = [limits[key].spread for key in ("nats-1-256", "batch-2", "replace-single")]
    total = sum(step.p50_ms for step in steps if step is not None)
    return Limit("pull answer + batch of 2 + REPLACE of one row, p50", total, "ms")


async def measure(
    directory: Path, db: MariaDb, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    url = f"mysql://{db.user}:{db.password}@{db.host}:{db.port}/"
    connection = await connect(db)
    try:
        async with connection.cursor() as cursor:
            for schema in (DATABASE, "tidb_binlog"):
                await cursor.execute(f"CREATE OR REPLACE DATABASE {schema}")
                await cursor.execute(f"DROP DATABASE {schema}")
        async with Stage(directory, url, pumps=PUMPS, profile=profile) as stage:
            stage.watch("mariadb", db.pid)
            await stage.start("registry", *stage.pumps, "drainer", "applier")
            upstream = Upstream(stage.bus, stage.pumps)
            await upstream.create_database()
            table = await upstream.create_table(100, 6)
            run = Run(stage, upstream, table, Watcher(connection, table.name), floor(limits))
            return await run.figures(share)
    finally:
        connection.close()


class Run:
    """All rates, spread over the Pumps and on one of them."""

    def __init__(
        self,
        stage: Stage,
        upstream: Upstream,
        table: BenchTable,
        watcher: Watcher,
        limit: Limit,
    ) -> None:
        self._stage = stage
        self._upstream = upstream
        self._table = table
        self._watcher = watcher
        self._limit = limit
        self._next = 0
        self._acked: dict[int, float] = {}

    async def figures(self, share: float) -> list[Figure]:
        watching = asyncio.get_running_loop().create_task(self._watcher.run())
        try:
            await self._transaction(self._row(), self._stage.pumps[0])  # the table comes to be
            await self._watcher.caught_up()
            found: list[Figure] = []
            for rate in RATES:
                for pumps in (self._stage.pumps, self._stage.pumps[:1]):
                    found += await self._rate(rate, pumps, share)
            return found
        finally:
            watching.cancel()

    def _row(self) -> int:
        self._next += 1
        return self._next

    async def _transaction(self, row: int, pump: str) -> None:
        self._watcher.expect(row)
        await self._upstream.transaction(self._table, [("c", self._table.insert(row))], pump)
        self._acked[row] = time.perf_counter()

    async def _rate(self, rate: Rate, pumps: list[str], share: float) -> list[Figure]:
        count = max(5, int(rate.per_second * rate.seconds * share))
        cpu = self._stage.cpu()
        rows = [self._row() for _ in range(count)]
        async with asyncio.TaskGroup() as group:
            due = asyncio.get_running_loop().time()
            for number, row in enumerate(rows):
                group.create_task(self._transaction(row, pumps[number % len(pumps)]))
                due += 1 / rate.per_second
                await asyncio.sleep(due - asyncio.get_running_loop().time())
        await self._watcher.caught_up()
        self._stage.check()
        # A row may be seen before the Commit's answer has come back: that is no time at all.
        found = spread([max(0.0, self._watcher.seen[r] - self._acked[r]) for r in rows])
        where = "spread" if len(pumps) > 1 else "on one Pump"
        usage = cpu.usage()
        return [
            Figure(
                SECTION,
                f"{name}, {rate.per_second} txn/s {where}",
                value,
                "ms",
                self._limit,
                aim,
                lower_is_better=True,
                original=rate.original,
                spread=found,
                usage=usage if name == "p50" else None,
                units_per_s=rate.per_second,
                note=f"{count} transactions",
            )
            for name, value, aim in (
                ("p50", found.p50_ms, AIM_P50_MS),
                (*found.tail, AIM_P99_MS),
            )
        ]
