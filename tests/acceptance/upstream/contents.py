"""What two MariaDBs hold, compared row by row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import zip_longest
from typing import Any

import pymysql
from pymysql.cursors import Cursor

from tests.servers import MariaDb

Row = tuple[Any, ...]
SHOWN = 5
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = %s ORDER BY 1"
COLUMNS = (
    "SELECT column_name FROM information_schema.columns"
    " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position"
)
JSON = (
    "SELECT constraint_name FROM information_schema.check_constraints"
    " WHERE constraint_schema = %s AND table_name = %s AND check_clause LIKE 'json_valid%%'"
)


@contextmanager
def cursor(server: MariaDb) -> Iterator[Cursor]:
    """Of a session in UTC that commits by itself."""
    connection = pymysql.connect(
        host=server.host, port=server.port, user=server.user, autocommit=True, charset="utf8mb4"
    )
    with closing(connection), connection.cursor() as found:
        found.execute("SET time_zone = '+00:00'")
        yield found


def ask(server: MariaDb, sql: str, *arguments: object) -> list[Row]:
    with cursor(server) as at:
        at.execute(sql, arguments)
        return list(at.fetchall())


def _table(at: Cursor, db: str, table: str, json_columns: set[str]) -> tuple[list[str], list[Row]]:
    """Column names, and all rows in some fixed order. JSON as what it means: its text may differ,
    and the copy's columns are LONGTEXT."""
    at.execute(COLUMNS, (db, table))
    columns = [row[0] for row in at.fetchall()]
    documents = {number for number, column in enumerate(columns) if column in json_columns}
    at.execute(f"SELECT * FROM `{db}`.`{table}`")
    rows = [
        tuple(
            json.loads(value) if number in documents and value is not None else value
            for number, value in enumerate(row)
        )
        for row in at.fetchall()
    ]
    return columns, sorted(rows, key=repr)


def differences(source: MariaDb, copy: MariaDb, db: str) -> list[str]:
    """Of all tables and views of a schema: names, columns, rows."""
    with cursor(source) as one, cursor(copy) as other:
        names = []
        for at in (one, other):
            at.execute(TABLES, (db,))
            names.append([row[0] for row in at.fetchall()])
        if names[0] != names[1]:
            return [f"{db}: tables {names[0]} became {names[1]}"]
        return [line for name in names[0] for line in _differences(one, other, db, name)]


def _differences(one: Cursor, other: Cursor, db: str, table: str) -> list[str]:
    one.execute(JSON, (db, table))
    documents = {row[0] for row in one.fetchall()}
    columns, rows = _table(one, db, table, documents)
    copied, copies = _table(other, db, table, documents)
    if columns != copied:
        return [f"{db}.{table}: columns {columns} became {copied}"]
    unequal = [pair for pair in zip_longest(rows, copies) if pair[0] != pair[1]]
    shown = [f"{db}.{table}: {a!r:.300} became {b!r:.300}" for a, b in unequal[:SHOWN]]
    return shown + [f"{db}.{table}: {len(unequal)} rows differ"] * bool(unequal)
