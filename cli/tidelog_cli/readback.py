"""Rows of a SQLite downstream in the JSON forms of the change stream, to compare with a source."""

from __future__ import annotations

import base64
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tidelog.rows.values import T_JSON
from tidelog.workload.compare import Fetch
from tidelog.workload.source import Contents


def sqlite_reader(path: Path, source: Contents) -> Fetch:
    """Reads tables named `db.table`; `source` tells which columns are JSON."""
    json_columns = {
        (table.db, table.table): {c.name.text for c in table.columns if c.type.Tp == T_JSON}
        for table in source.tables
    }

    async def fetch(db: str, table: str) -> list[dict[str, object]]:
        return read_table(path, db, table, json_columns.get((db, table), set()))

    return fetch


def read_table(path: Path, db: str, table: str, as_json: set[str]) -> list[dict[str, object]]:
    """All rows. Raises LookupError if there is no such table."""
    quoted = f"{db}.{table}".replace('"', '""')
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        try:
            cursor = connection.execute(f'SELECT * FROM "{quoted}"')  # noqa: S608
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:  # it is locked, say
                raise
            raise LookupError(f"{db}.{table}") from error
        names = [column[0] for column in cursor.description]
        return [
            {n: _form(v, n in as_json) for n, v in zip(names, row, strict=True)} for row in cursor
        ]


def _form(value: Any, as_json: bool) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return json.loads(value) if as_json and value is not None else value
