"""A backlog from two Pumps into MariaDB, and each half of that way by itself.

The backlog is written before Drainer and Applier run. Then a Drainer publishes it to a feed of its
own (`alone`), an Applier applies that finished stream, and at last both together do it again for
another feed (`whole`). The time runs from a service's readiness to the last visible row.
"""

from __future__ import annotations

import bisect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import aiomysql

from bench.alone import Work
from bench.drain import jetstream
from bench.figure import Figure, Limit
from bench.frames import Changes, prepare
from bench.limits_sql import connect, run
from bench.progress import follow, speed
from bench.stage import CLUSTER, Stage
from bench.tables import DATABASE, BenchTable
from bench.upstream import Upstream
from tests.servers import MariaDb
from tidelog.changes import H_LAST_TS
from tidelog.errors import StreamMissing
from tidelog.subjects import changes_stream, changes_txn

SECTION = "backlog"
GROUP = 600
LIKE_ROWS = 20_000
TIMEOUT_S = 300.0


class Kind(NamedTuple):
    """A kind of backlog. `aim` and `original` are of the whole way, in `unit`."""

    name: str
    key: str
    columns: int
    transactions: int
    rows: int
    unit: str
    aim: float
    original: str


KINDS = (
    Kind("1–2 rows", "few", 6, 120_000, 0, "txn/s", 12_000, "7.4k txn/s, 15.5k rows/s"),
    Kind("100 rows", "many", 6, 4_000, 100, "rows/s", 40_000, "15.5k rows/s (2 a transaction)"),
)
DRAINER = "30k txn/s, 64k rows/s into files"
NOT_THERE_YET = (1049, 1146)
"""The database, the table."""


class Backlog(NamedTuple):
    """What the Pumps hold: rows and commit_ts ascending, and the table's rows and versions."""

    table: BenchTable
    commit_ts: list[int]
    changes: int
    rows: int
    versions: int


def few_rows(table: BenchTable, count: int) -> Iterator[Changes]:
    """Each inserts a row; every second one also updates one that an earlier group inserted."""
    for number in range(count):
        insert = ("c", table.insert(number))
        if number % 2 and number >= GROUP:
            yield [insert, ("u", table.update(number - GROUP, 1))]
        else:
            yield [insert]


def many_rows(table: BenchTable, count: int, rows: int) -> Iterator[Changes]:
    for number in range(count):
        yield [("c", table.insert(n)) for n in range(number * rows, (number + 1) * rows)]


async def write(upstream: Upstream, kind: Kind, share: float) -> Backlog:
    """Fill the Pumps."""
    await upstream.create_database()
    table = await upstream.create_table(100, kind.columns)
    count = int(kind.transactions * share)
    found = many_rows(table, count, kind.rows) if kind.rows else few_rows(table, count)
    commit_ts: list[int] = []
    changes, versions, group = 0, 0, list[Changes]()
    for transaction in found:
        group.append(transaction)
        changes += len(transaction)
        versions += sum(op == "u" for op, _ in transaction)
        if len(group) == GROUP:
            commit_ts += await upstream.transactions(table, group)
            group = []
    if group:
        commit_ts += await upstream.transactions(table, group)
    return Backlog(table, commit_ts, changes, changes - versions, versions)


async def measure(
    directory: Path, db: MariaDb, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    figures: list[Figure] = []
    for kind in KINDS:
        url = f"mysql://{db.user}:{db.password}@{db.host}:{db.port}/"
        async with Stage(directory / kind.key, url, pumps=2, profile=profile) as stage:
            stage.watch("mariadb", db.pid)
            await stage.start("registry", *stage.pumps)
            backlog = await write(Upstream(stage.bus, stage.pumps), kind, share)
            figures += [f async for f in Run(stage, db, limits, kind, backlog).figures()]
    return figures


class Run:
    """The three measurements of one backlog."""

    def __init__(
        self, stage: Stage, db: MariaDb, limits: Mapping[str, Limit], kind: Kind, backlog: Backlog
    ) -> None:
        self._stage = stage
        self._db = db
        self._limits = limits
        self._kind = kind
        self._backlog = backlog

    async def figures(self) -> AsyncIterator[Figure]:
        stage = self._stage
        ready = Limit("such batches by nats-py", await self._ready(), self._kind.unit)
        await stage.start("drainer-alone", feed="alone")
        published = Published(stage, "alone", self._backlog.commit_ts)
        yield await self._figure("Drainer alone, into JetStream", published.count, DRAINER, ready)
        await stage.stop("drainer-alone")
        yield await self._into_sql("Applier alone, stream complete", "applier-alone")
        yield await self._into_sql("Pumps to MariaDB", "applier-whole", "drainer-whole")

    @property
    def _each(self) -> float:
        """Rows of a transaction."""
        return self._backlog.changes / len(self._backlog.commit_ts)

    async def _ready(self) -> float:
        """What JetStream takes of batches of such transactions, all made before."""
        rows, first_ts = round(self._each), self._backlog.commit_ts[0]
        count = LIKE_ROWS // rows
        made = prepare(CLUSTER, ("fed",), first_ts, self._kind.columns, count, rows)
        rate = await jetstream(self._stage.url, Work(made.history, made.backlog))
        return rate * rows if self._kind.unit == "rows/s" else rate

    async def _into_sql(self, name: str, *services: str) -> Figure:
        """Start them; until every row is there, at its last version."""
        feed = services[0].partition("-")[2]
        connection = await connect(self._db)
        try:
            for schema in (DATABASE, "tidb_binlog"):
                await run(connection, f"CREATE OR REPLACE DATABASE {schema}")
                await run(connection, f"DROP DATABASE {schema}")
            for service in services:
                await self._stage.start(service, feed=feed)
            applied = Applied(connection, self._backlog)
            whole = len(services) > 1
            limit = self._limits[f"replace-{self._kind.columns}-4"]
            if self._kind.unit == "txn/s":
                each = self._each
                of_such = f"{limit.name}, {each:.1f} rows each"
                limit = Limit(of_such, limit.value / each, self._kind.unit)
            figure = await self._figure(
                name,
                applied.count,
                self._kind.original if whole else "",
                limit,
                self._kind.aim if whole else None,
            )
            for service in services:
                await self._stage.stop(service)
            return figure
        finally:
            connection.close()

    async def _figure(
        self,
        name: str,
        done: Callable[[], Awaitable[int]],
        original: str,
        limit: Limit,
        aim: float | None = None,
    ) -> Figure:
        """Follow `done`, in transactions, to the end."""
        kind, backlog = self._kind, self._backlog
        each = self._each
        cpu = self._stage.cpu()
        total = len(backlog.commit_ts)
        samples = [s async for s in follow(done, total, self._stage.check, TIMEOUT_S)]
        rate = speed(samples)
        per_row = kind.unit == "rows/s"
        return Figure(
            SECTION,
            f"{name}, transactions of {kind.name}",
            rate * each if per_row else rate,
            kind.unit,
            limit,
            aim,
            original=original,
            usage=cpu.usage(),
            note=f"{rate:.0f} txn/s, {rate * each:.0f} rows/s",
        )


class Published:
    """How many transactions the last marker of a feed's stream covers."""

    def __init__(self, stage: Stage, feed: str, commit_ts: Sequence[int]) -> None:
        self._bus = stage.bus
        self._stream = changes_stream(feed)
        self._subject = changes_txn(feed)
        self._commit_ts = commit_ts

    async def count(self) -> int:
        try:
            message = await self._bus.last_message(self._stream, self._subject)
        except StreamMissing:
            return 0
        if message is None:
            return 0
        return bisect.bisect_right(self._commit_ts, int(message.headers[H_LAST_TS]))


class Applied:
    """How many transactions are visible downstream. While they come, by the largest key; at the end
    all rows are counted and their versions summed."""

    def __init__(self, connection: aiomysql.Connection, backlog: Backlog) -> None:
        self._connection = connection
        self._backlog = backlog
        self._table = f"`{DATABASE}`.`{backlog.table.name}`"

    async def count(self) -> int:
        total = len(self._backlog.commit_ts)
        try:
            (last,) = await self._ask(f"SELECT COALESCE(MAX(id) + 1, 0) FROM {self._table}")
        except aiomysql.MySQLError as error:
            if error.args[0] in NOT_THERE_YET:
                return 0
            raise
        if last < self._backlog.rows:
            return int(last) * total // self._backlog.rows
        want = (self._backlog.rows, self._backlog.versions)
        found = await self._ask(f"SELECT COUNT(*), SUM(version) FROM {self._table}")
        return total if (int(found[0]), int(found[1])) == want else total - 1

    async def _ask(self, query: str) -> tuple[int, ...]:
        async with self._connection.cursor() as cursor:
            await cursor.execute(query)
            row: tuple[int, ...] = await cursor.fetchone()
            return row
