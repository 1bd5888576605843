"""A TiDB server while the schema changes: it follows in its own time, and writes rows of the
version that it knows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.acceptance.upstream.race_history import History, Row, Wrote
from tidelog.pump_client import Writer
from tidelog.pump_client.tables.table import Table
from tidelog.rows.table_codec import INSERT, UPDATE
from tidelog.rows.values import INT_TYPES
from tidelog.schema.model import ColumnInfo, TableInfo
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation


@dataclass(frozen=True)
class View:
    """What a server knows of the table. `table` None: there is none. `hidden`: columns that rows
    have and statements don't."""

    version: int
    table: Table | None = None
    info: TableInfo | None = None
    hidden: frozenset[str] = frozenset()

    @property
    def columns(self) -> tuple[ColumnInfo, ...]:
        return self.info.columns if self.info is not None else ()

    def shown(self, row: Row) -> Row:
        return {name: value for name, value in row.items() if name not in self.hidden}


class Server:
    """One TiDB server: one transaction at a time."""

    def __init__(self, writer: Writer, history: History, number: int) -> None:
        self.number = number
        self.view = View(0)
        self.done = asyncio.Event()
        self.ended = True
        self._upstream = writer._upstream
        self._history = history
        self._turn = asyncio.Lock()

    async def take(self, view: View) -> None:
        """Know this version from now on; what is under way ends first."""
        async with self._turn:
            self.view = view

    async def work(self, transaction: Callable[[Server], Awaitable[None]]) -> None:
        """Until `ended`. A transaction is never cancelled: it would be either."""
        while not self.ended:
            async with self._turn:
                if self.view.table is None:
                    await asyncio.sleep(0)
                else:
                    await transaction(self)
                self.done.set()

    def image(self, row: Row) -> Row:
        """The row with all columns that this view stores, hidden ones with their defaults."""
        return {
            name: row[name] if name in row else _origin(column)
            for column in self.view.columns
            for name in (column.name.text,)
        }

    async def insert(self, row: Row) -> None:
        """Columns that are not named get the default that this server knows."""
        whole = {c.name.text: row.get(c.name.text, _default(c)) for c in self.view.columns}
        assert self.view.table is not None
        data = self.view.table.insert(whole, 1, "")
        await self._commit(whole, TableMutation(inserted_rows=[data], sequence=[INSERT]))  # type: ignore[list-item]

    async def update(self, before: Row, changes: Row) -> Row:
        """`before` has the columns that this row ever had. Returns it changed."""
        old = self.image(before)
        assert self.view.table is not None
        data = self.view.table.update(old, changes)
        mutation = TableMutation(updated_rows=[data], sequence=[UPDATE])  # type: ignore[list-item]
        await self._commit(old | changes, mutation)
        return before | changes

    async def _commit(self, row: Row, mutation: TableMutation) -> None:
        view = self.view
        assert view.table is not None
        mutation.table_id = view.table.id
        value = PrewriteValue(schema_version=view.version, mutations=[mutation])
        start_ts = await self._upstream.begin()
        commit_ts = await self._upstream.commit(
            Binlog(start_ts=start_ts, prewrite_value=value.SerializeToString())
        )
        self._history.rows.append(
            Wrote(
                *(commit_ts, view.version, view.table.id, view.table.name, view.shown(row)),
                is_update=bool(mutation.updated_rows),
            )
        )


def _origin(column: ColumnInfo) -> object:
    """Of a row that is older than the column, or no longer says it."""
    zero: object = 0 if column.type.Tp in INT_TYPES else ""
    return _meant(column, column.origin_default, zero if column.not_null else None)


def _default(column: ColumnInfo) -> object:
    return _meant(column, column.default, _origin(column))


def _meant(column: ColumnInfo, text: object, otherwise: object) -> object:
    if text is None:
        return otherwise
    return int(str(text)) if column.type.Tp in INT_TYPES else text
