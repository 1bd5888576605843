"""What the database does by itself: multi-row REPLACE of finished statements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

import aiomysql

from bench.figure import Limit
from bench.load import closed_loop, timed
from bench.tables import BenchTable, values
from tests.servers import MariaDb

ROWS = 500
SCHEMA = "bench_limit"


async def connect(db: MariaDb) -> aiomysql.Connection:
    return await aiomysql.connect(
        host=db.host, port=db.port, user=db.user, password=db.password, autocommit=True,
        charset="utf8mb4",
    )  # fmt: skip


async def run(connection: aiomysql.Connection, *statements: str) -> None:
    async with connection.cursor() as cursor:
        for statement in statements:
            await cursor.execute(statement)


async def replace(db: MariaDb, rows: int) -> dict[str, Limit]:
    """500 rows a statement and commit, one statement under way per connection; the literals are
    made before. And single rows, one at a time: the floor of a latency."""
    found: dict[str, Limit] = {}
    for columns in (2, 6):
        for connections in (1, 4):
            rate = await _multi(db, columns, connections, rows)
            found[f"replace-{columns}-{connections}"] = Limit(
                f"REPLACE of 500 rows, {columns} columns, {connections} connections",
                rate,
                "rows/s",
            )
    found["replace-single"] = await _single(db)
    return found


def _table(columns: int) -> tuple[BenchTable, Sequence[str]]:
    """A table and the statements that make it, whatever was there before."""
    table = BenchTable(1, columns)
    return table, (
        f"CREATE OR REPLACE DATABASE {SCHEMA}",
        f"USE {SCHEMA}",
        table.query.rstrip(";"),
    )


async def _multi(db: MariaDb, columns: int, connections: int, rows: int) -> float:
    table, setup = _table(columns)
    crew = [await connect(db) for _ in range(connections)]
    try:
        await run(crew[0], *setup)
        statements = [
            f"REPLACE INTO {SCHEMA}.{table.name} VALUES "
            + ",".join(values(table.row(n)) for n in range(at, at + ROWS))
            for at in range(0, rows, ROWS)
        ]
        waiting = iter(statements)

        async def work(connection: aiomysql.Connection) -> None:
            for statement in waiting:
                await run(connection, statement)

        began = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for connection in crew:
                group.create_task(work(connection))
        return len(statements) * ROWS / (time.perf_counter() - began)
    finally:
        await run(crew[0], f"DROP DATABASE {SCHEMA}")
        for connection in crew:
            connection.close()


async def _single(db: MariaDb) -> Limit:
    table, setup = _table(6)
    connection = await connect(db)
    try:
        await run(connection, *setup)
        statement = f"REPLACE INTO {SCHEMA}.{table.name} VALUES {values(table.row(1))}"
        load = await closed_loop(1, 0.5, timed(lambda: run(connection, statement)), warm_up=0.1)
        return Limit("REPLACE of one row, one at a time", load.rate, "rows/s", load.spread)
    finally:
        await run(connection, f"DROP DATABASE {SCHEMA}")
        connection.close()
