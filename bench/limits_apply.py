"""What the database takes of the rows that `bench apply` has applied, when nothing has to be read,
decoded or planned: every statement and file is made before the clock starts.

Each connection has the rows of its own keys, in order, as a writer that resolves conflicts by key
has them. LOAD DATA and the ready statements leave deletes out: neither can do them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import aiomysql

from bench.figure import Limit
from bench.limits_sql import connect, run
from bench.shapes import TRANSACTION, Change, Load
from bench.tables import DATABASE, BenchTable, values
from tests.servers import MariaDb

ROWS = 500
"""Of a ready statement."""
LOADERS = 4
BY_ROW = 16
"""Connections, as many as the original has by default."""
CLIENT = ("--no-defaults", "--local-infile=1")


class Limits(NamedTuple):
    load_data: Limit
    ready: Limit
    by_row: Limit


async def measure(db: MariaDb, directory: Path, load: Load) -> Limits:
    """Rows per second of the load's measured part, three ways."""
    changes = [change for transaction in load.measured for change in transaction]
    return Limits(
        await load_data(db, directory, load),
        Limit(
            f"ready REPLACE of {ROWS} rows, {LOADERS} connections",
            await _ready(db, load, changes),
            "rows/s",
        ),
        Limit(
            f"row by row, transactions of {TRANSACTION}, {BY_ROW} connections",
            await _by_row(db, load, changes),
            "rows/s",
        ),
    )


async def load_data(db: MariaDb, directory: Path, load: Load) -> Limit:
    """Rows per second of the load's measured part, from files."""
    changes = [change for transaction in load.measured for change in transaction]
    rate = await _files(db, directory, load, changes)
    return Limit(f"LOAD DATA LOCAL REPLACE, {LOADERS} clients", rate, "rows/s")


@asynccontextmanager
async def _connections(
    db: MariaDb, load: Load, count: int
) -> AsyncIterator[list[aiomysql.Connection]]:
    """To a table as it is before the measured part; afterwards it is gone."""
    crew = [await connect(db) for _ in range(count)]
    try:
        await create(crew[0], load.table)
        present = [change for transaction in load.present for change in transaction]
        for statement in replaces(load.table, present):
            await run(crew[0], statement)
        yield crew
    finally:
        await run(crew[0], f"DROP DATABASE {DATABASE}")
        for connection in crew:
            connection.close()


async def create(connection: aiomysql.Connection, table: BenchTable) -> None:
    """The empty table, whatever was there before."""
    await run(
        connection,
        f"CREATE OR REPLACE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        f"USE {DATABASE}",
        table.query.rstrip(";"),
    )


def _lanes(changes: Sequence[Change], count: int) -> list[list[Change]]:
    return [[one for one in changes if one.number % count == lane] for lane in range(count)]


def _puts(changes: Sequence[Change]) -> list[Change]:
    return [change for change in changes if change.after is not None]


def _row(table: BenchTable, change: Change) -> str:
    assert change.after is not None
    return values(table.row(change.number, change.after))


def replaces(table: BenchTable, changes: Sequence[Change]) -> Iterator[str]:
    """Multi-row statements of the rows that these leave."""
    for at in range(0, len(changes), ROWS):
        rows = ",".join(_row(table, change) for change in changes[at : at + ROWS])
        yield f"REPLACE INTO {DATABASE}.{table.name} VALUES {rows}"


async def _ready(db: MariaDb, load: Load, changes: Sequence[Change]) -> float:
    puts = _puts(changes)
    lanes = [list(replaces(load.table, lane)) for lane in _lanes(puts, LOADERS)]
    async with _connections(db, load, LOADERS) as crew:
        return len(puts) / await _timed(crew, lanes)


async def _by_row(db: MariaDb, load: Load, changes: Sequence[Change]) -> float:
    lanes = [_statements(load.table, lane) for lane in _lanes(changes, BY_ROW)]
    async with _connections(db, load, BY_ROW) as crew:
        return len(changes) / await _timed(crew, lanes)


def _statements(table: BenchTable, changes: Sequence[Change]) -> list[str]:
    place, found = f"{DATABASE}.{table.name}", []
    for at, change in enumerate(changes, 1):
        if at % TRANSACTION == 1:
            found.append("BEGIN")
        if change.after is None:
            found.append(f"DELETE FROM {place} WHERE id={change.number}")
        else:
            found.append(f"REPLACE INTO {place} VALUES {_row(table, change)}")
        if at % TRANSACTION == 0 or at == len(changes):
            found.append("COMMIT")
    return found


async def _timed(crew: Sequence[aiomysql.Connection], lanes: Sequence[list[str]]) -> float:
    """Seconds until every connection has run its statements."""

    async def work(connection: aiomysql.Connection, statements: list[str]) -> None:
        for statement in statements:
            await connection.query(statement)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for connection, statements in zip(crew, lanes, strict=True):
            group.create_task(work(connection, statements))
    return time.perf_counter() - began


async def _files(db: MariaDb, directory: Path, load: Load, changes: Sequence[Change]) -> float:
    """By the server's own client, a process a connection: Python would be the limit."""
    puts = _puts(changes)
    files = []
    for number, lane in enumerate(_lanes(puts, LOADERS)):
        files.append(directory / f"load-{number}.tsv")
        files[-1].write_text("".join(_line(load.table, change) for change in lane))
    async with _connections(db, load, 1):
        began = time.perf_counter()
        clients = [await _client(db, load.table, path) for path in files]
        codes = [await client.wait() for client in clients]
        seconds = time.perf_counter() - began
    for path in files:
        path.unlink()
    if any(codes):
        raise RuntimeError(f"the clients ended with {codes}")
    return len(puts) / seconds


def _line(table: BenchTable, change: Change) -> str:
    assert change.after is not None
    return "\t".join(map(str, table.row(change.number, change.after).values())) + "\n"


async def _client(db: MariaDb, table: BenchTable, path: Path) -> asyncio.subprocess.Process:
    statement = (
        f"LOAD DATA LOCAL INFILE '{path}' REPLACE INTO TABLE {DATABASE}.{table.name}"
        " CHARACTER SET utf8mb4"
    )
    where = (f"--host={db.host}", f"--port={db.port}", f"--user={db.user}", "--protocol=tcp")
    return await asyncio.create_subprocess_exec("mariadb", *CLIENT, *where, "-e", statement)
