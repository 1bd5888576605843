"""A tiny database in memory: the truth that downstreams are compared with.

Rows are locked from the moment a transaction touches them until its fate is decided, and a DDL has
its table for itself. So for every row the order of changes is the order of commit_ts, as TiDB
guarantees it. Pure and synchronous.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec

from tidelog.rows.table_codec import TableCodec
from tidelog.rows.values import T_VARCHAR, Value
from tidelog.schema.model import ColumnInfo, TableInfo
from tidelog.workload.table_kinds import Row, TablePlan

Key = tuple[str, tuple[Value, ...]]
"""(name of the unique key, its values as its collation sees them)"""


class SourceTable:
    """One table at its present version. `rows` by row id, which is the hidden handle too."""

    def __init__(self, db: str, info: TableInfo, plan: TablePlan) -> None:
        self.db = db
        self.plan = plan
        self.rows: dict[int, Row] = {}
        self.keys: set[Key] = set()
        self.claimed: dict[Key, int] = {}
        self.locked: dict[int, int] = {}
        self.users = 0
        self.blocked = False
        self.idle = asyncio.Event()
        self.idle.set()
        self._row_id = 0
        self.last_column_id = 0
        """Ids of dropped columns are not given again."""
        self.set_info(info)

    def set_info(self, info: TableInfo) -> None:
        """Take a new version of the definition."""
        self.info = info
        self.codec = TableCodec(info)
        self.unique = _unique_keys(info)
        self._columns = {column.name.text: column for column in info.columns}

    @property
    def name(self) -> str:
        return self.info.name.text

    def new_row_id(self) -> int:
        self._row_id += 1
        return self._row_id

    def key_values(self, row: Row) -> list[Key]:
        """The row's unique keys; one with a NULL in it is none."""
        return [
            (name, tuple(_collated(self._columns[c], row[c]) for c in columns))
            for name, columns in self.unique
            if all(row[c] is not None for c in columns)
        ]

    def put(self, row_id: int, before: Row | None, after: Row | None) -> None:
        """Apply one change of a committed transaction."""
        if before is not None:
            self.keys.difference_update(self.key_values(before))
        if after is None:
            del self.rows[row_id]
            return
        for key in self.key_values(after):
            assert key not in self.keys, f"{self.db}.{self.name}: two rows with {key}"
            self.keys.add(key)
        self.rows[row_id] = after

    def enter(self) -> None:
        self.users += 1
        self.idle.clear()

    def leave(self, start_ts: int) -> None:
        """A transaction is decided: its locks go."""
        self.users -= 1
        if self.users == 0:
            self.idle.set()
        self.claimed = {key: ts for key, ts in self.claimed.items() if ts != start_ts}
        self.locked = {row_id: ts for row_id, ts in self.locked.items() if ts != start_ts}


class Source:
    """All databases. Ids and schema versions come from one counter each, as in TiDB."""

    def __init__(self) -> None:
        self.databases: dict[str, int] = {}
        self.tables: dict[tuple[str, str], SourceTable] = {}
        self.schema_version = 0
        self.last_commit_ts = 0
        self._global_id = 100

    def new_id(self) -> int:
        """For databases, tables and jobs."""
        self._global_id += 1
        return self._global_id

    def used_id(self, number: int) -> None:
        """An earlier run used it."""
        self._global_id = max(self._global_id, number)

    def open_tables(self) -> list[SourceTable]:
        """Tables that a transaction may touch now."""
        return [table for table in self.tables.values() if not table.blocked]

    def add(self, table: SourceTable) -> None:
        self.tables[table.db, table.name] = table

    def contents(self) -> Contents:
        """Everything, to compare or to dump."""
        return Contents(
            self.last_commit_ts,
            [
                TableContents(
                    t.db, t.name, list(t.info.columns), [dict(r) for r in t.rows.values()]
                )
                for _, t in sorted(self.tables.items())
            ],
        )

    def __iter__(self) -> Iterator[SourceTable]:
        return iter(self.tables.values())


class TableContents(msgspec.Struct, frozen=True):
    db: str
    table: str
    columns: list[ColumnInfo]
    rows: list[dict[str, Any]]
    """Row values; `Any` because msgspec can't decode the recursive Value."""


class Contents(msgspec.Struct, frozen=True):
    """The source at one moment; `commit_ts` is its newest commit's."""

    commit_ts: int
    tables: list[TableContents]


def _unique_keys(info: TableInfo) -> list[tuple[str, tuple[str, ...]]]:
    keys = [
        (index.idx_name.text, tuple(part.name.text for part in index.idx_cols))
        for index in info.indexes
        if index.is_unique or index.is_primary
    ]
    if info.pk_is_handle:
        handle = next(c for c in info.columns if c.type.Flag & 2)
        keys.append(("PRIMARY", (handle.name.text,)))
    return keys


def _collated(column: ColumnInfo, value: Value) -> Value:
    """Equal for values the column's collation calls equal (our texts in keys are ASCII)."""
    if column.type.Tp != T_VARCHAR or not isinstance(value, str):
        return value
    text = value.rstrip(" ")
    return text if column.type.Collate.endswith("_bin") else text.casefold()
