"""Writers like sysbench's `oltp_write_only` on a TiDB, schema changes beside them, and a probe that
waits for its rows downstream."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiomysql
import pymysql

TABLES = 4
ROWS = 2000
"""Of each table at the beginning."""
DDL_EACH_S = 3.0
PROBE_EACH_S = 0.25
LOOK_S = 0.002
LOST = (0, 2006, 2013)
"""Errors that mean that there is no connection any more."""
LOST_S = 0.5
"""Before another one is made."""
TABLE = (
    "CREATE TABLE sbtest{} (id INT NOT NULL AUTO_INCREMENT, k INT NOT NULL DEFAULT 0,"
    " c CHAR(120) NOT NULL DEFAULT '', pad CHAR(60) NOT NULL DEFAULT '', PRIMARY KEY (id),"
    " KEY k (k))"
)


class Load:
    """`port`, `down_port`: of the TiDB and of the downstream."""

    def __init__(self, port: int, down_port: int, seed: int) -> None:
        self._port, self._down_port = port, down_port
        self._seed = seed
        self.running = True
        self.transactions = 0
        self.statements = 0
        self.ddls: Counter[str] = Counter()
        self.errors: Counter[int] = Counter()
        """By MySQL's number, 0 without one: what TiDB rolled back, or never told the end of."""
        self.told: dict[int, str] = {}
        """The first error of each number."""
        self.latencies: list[float] = []
        """Seconds from COMMIT's answer until the probe's row is visible downstream."""

    async def prepare(self) -> None:
        async with _connected(self._port) as cursor:
            for off in ("tidb_enable_async_commit", "tidb_enable_1pc", "tidb_enable_auto_analyze"):
                await cursor.execute(f"SET GLOBAL {off} = OFF")
            await cursor.execute("CREATE DATABASE sbtest")
            await cursor.execute("USE sbtest")
            await cursor.execute("CREATE TABLE probe (id INT PRIMARY KEY)")
            for number in range(TABLES):
                await cursor.execute(TABLE.format(number))
                rng = random.Random(number)
                rows = [_row(rng) for _ in range(ROWS)]
                into = f"INSERT INTO sbtest{number} (k, c, pad) VALUES (%s, %s, %s)"
                await cursor.executemany(into, rows)

    async def write(self, number: int) -> None:
        """Transactions of four statements, one after the other, over lost connections."""
        rng = random.Random(self._seed * 1000 + number)
        while self.running:
            try:
                async with _connected(self._port, "sbtest") as cursor:
                    while self.running:
                        await self._transaction(cursor, rng)
            except (pymysql.err.MySQLError, OSError) as error:
                self._count(error)
                await asyncio.sleep(LOST_S)

    def _count(self, error: Exception) -> int:
        number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        self.errors[number] += 1
        self.told.setdefault(number, str(error))
        return number

    async def _transaction(self, cursor: Any, rng: random.Random) -> None:
        table, key = f"sbtest{rng.randrange(TABLES)}", rng.randrange(1, ROWS)
        k, c, pad = _row(rng)
        try:
            await cursor.execute("BEGIN")
            await cursor.execute(f"UPDATE {table} SET k = k + 1 WHERE id = %s", (key,))
            other = rng.randrange(1, ROWS)
            await cursor.execute(f"UPDATE {table} SET c = %s WHERE id = %s", (c, other))
            await cursor.execute(f"DELETE FROM {table} WHERE id = %s", (key,))
            into = f"INSERT INTO {table} (id, k, c, pad) VALUES (%s, %s, %s, %s)"
            await cursor.execute(into, (key, k, c, pad))
            await cursor.execute("COMMIT")
        except pymysql.err.MySQLError as error:
            if self._count(error) in LOST:
                raise
            await cursor.execute("ROLLBACK")
            return
        self.transactions += 1
        self.statements += 4

    async def change(self) -> None:
        """A schema change each DDL_EACH_S."""
        rng, number = random.Random(self._seed), 0
        while self.running:
            number += 1
            table = f"sbtest{rng.randrange(TABLES)}"
            try:
                async with _connected(self._port, "sbtest") as cursor:
                    for kind, statement in _changes(number, table):
                        await cursor.execute(statement)
                        self.ddls[kind] += 1
            except (pymysql.err.MySQLError, OSError) as error:
                self._count(error)
            await asyncio.sleep(DDL_EACH_S)

    async def probe(self) -> None:
        """A row each PROBE_EACH_S; how long it takes to the downstream."""
        number = 0
        while self.running:
            try:
                async with (
                    _connected(self._port, "sbtest") as source,
                    _connected(self._down_port) as copy,
                ):
                    while self.running:
                        number += 1
                        await source.execute("INSERT INTO probe VALUES (%s)", (number,))
                        began = time.monotonic()
                        await self._seen(copy, number)
                        self.latencies.append(time.monotonic() - began)
                        await asyncio.sleep(PROBE_EACH_S)
            except (pymysql.err.MySQLError, OSError) as error:
                self._count(error)
                await asyncio.sleep(LOST_S)

    async def _seen(self, copy: Any, number: int) -> None:
        while self.running:
            try:
                await copy.execute("SELECT 1 FROM sbtest.probe WHERE id = %s", (number,))
                if await copy.fetchone() is not None:
                    return
            except pymysql.err.ProgrammingError:
                pass  # the table is not there yet
            await asyncio.sleep(LOOK_S)

    async def newest_ts(self) -> int:
        """Above every commit_ts so far."""
        async with _connected(self._port) as cursor:
            await cursor.execute("BEGIN")
            await cursor.execute("SELECT @@tidb_current_ts")
            (found,) = await cursor.fetchone()
            return int(found)


def _changes(number: int, table: str) -> list[tuple[str, str]]:
    """One kind of change after the other; what is added is dropped by the next round."""
    side = f"side{number}"
    match number % 5:
        case 0:
            return [("create table", f"CREATE TABLE {side} (id INT PRIMARY KEY, v JSON)")]
        case 1:
            new = f"ALTER TABLE {table} ADD COLUMN x{number} VARCHAR(20) DEFAULT 'new'"
            return [("add column", new)]
        case 2:
            return [("add index", f"ALTER TABLE {table} ADD INDEX i{number} (c(10))")]
        case 3:
            new = f"ALTER TABLE {table} ADD COLUMN y{number} INT"
            gone = f"ALTER TABLE {table} DROP COLUMN y{number}"
            return [("add column", new), ("drop column", gone)]
        case _:
            like = f"CREATE TABLE {side} LIKE {table}"
            moved = f"RENAME TABLE {side} TO moved{number}"
            gone = f"TRUNCATE TABLE moved{number}"
            return [("create table", like), ("rename table", moved), ("truncate table", gone)]


def _row(rng: random.Random) -> tuple[int, str, str]:
    return (
        rng.randrange(ROWS),
        f"{rng.getrandbits(380):0120d}"[:120],
        f"{rng.getrandbits(190):058d}",
    )


@asynccontextmanager
async def _connected(port: int, database: str | None = None) -> AsyncIterator[Any]:
    """A cursor of a connection of its own, autocommit."""
    at = {"host": "127.0.0.1", "port": port, "user": "root", "db": database}
    connection = await aiomysql.connect(**at, autocommit=True)
    try:
        yield await connection.cursor()
    finally:
        connection.close()
