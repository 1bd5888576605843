"""One transaction of an application that has no TiDB."""

from __future__ import annotations

from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from tidelog.errors import BadInput
from tidelog.pump_client.errors import SchemaChanged, TransactionEnded
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.pump_client.tables.table import Row, Table
from tidelog.pump_client.two_phase import Upstream
from tidelog.timestamps import physical_ms
from tidelog_proto.binlog_pb2 import (
    Binlog,
    DeleteRow,
    Insert,
    PrewriteValue,
    TableMutation,
    Update,
)

MAX_BYTES: Final = 100 << 20
"""TiDB's txn-total-size-limit."""


class Transaction:
    """Made by `client.transaction()`, used in `async with`.

        async with client.transaction() as txn:
            txn.insert("shop.item", {"id": 1, "name": "pencil", "price": Decimal("1.20")})
            txn.update("shop.stock", {"id": 1, "left": 5}, {"left": 4})
            txn.delete("shop.wish", {"id": 7, "item": 1})
        print(txn.start_ts, txn.commit_ts)

    The calls check and encode at once, and raise a BadInput that names the column: nothing is
    written before the block ends. Leaving it commits; an exception in it rolls back and goes on.
    `commit_ts` is 0 until committed, and stays 0 when nothing was changed: then nothing is sent.

    There is no database behind: whether a key is taken, and what a row was before, the application
    knows. So an update and a delete are given the old row.
    """

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._catalog: Catalog
        self._tables: dict[int, Table] = {}
        self._mutations: dict[int, TableMutation] = {}
        self._rows = 0
        self._bytes = 0
        self._is_open = False
        self._now = ""
        self.start_ts = 0
        self.commit_ts = 0

    async def __aenter__(self) -> Self:
        """Raises Unavailable when the registry doesn't answer; Overloaded when too many are
        open."""
        if self.start_ts:
            raise TransactionEnded("a transaction is entered once", hint="make another")
        self._catalog = await self._upstream.catalog()
        self.start_ts = await self._upstream.begin()
        at = datetime.fromtimestamp(physical_ms(self.start_ts) / 1000, UTC)
        self._now = f"{at:%Y-%m-%d %H:%M:%S.%f}"
        self._is_open = True
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back after an exception.

        Raises a definite error when it was rolled back: `NoPump`, `SchemaChanged`, `Overloaded`
        (run it again), `RolledBack`, `Unavailable` of the oracle; `OutcomeUnknown` of the Prewrite
        means the same here. Raises `CommitUnknown` when it may be committed. Cancelled, it may be
        either.
        """
        self._is_open = False
        if error is not None or not self._mutations:
            self._upstream.end(self.start_ts)
            return
        self.commit_ts = await self._commit()

    def insert(self, table: str, row: Row) -> None:
        """Add a row. Columns that are not named get their default. Raises BadValue, NoSuchTable,
        NotWritable, TransactionEnded; BadInput when the transaction becomes too large."""
        made, mutation = self._touch(table)
        self._rows += 1
        encoded = made.insert(row, self.start_ts + self._rows, self._now)
        self._count(len(encoded))
        mutation.inserted_rows.append(encoded)
        mutation.sequence.append(Insert)
        self._mutations[made.id] = mutation

    def update(self, table: str, before: Row, after: Row) -> None:
        """Change a row. `before` is the whole old row; what `after` does not name stays as it was.
        Raises as `insert`."""
        made, mutation = self._touch(table)
        encoded = made.update(before, after)
        self._count(len(encoded))
        mutation.updated_rows.append(encoded)
        mutation.sequence.append(Update)
        self._mutations[made.id] = mutation

    def delete(self, table: str, row: Row) -> None:
        """Remove a row; `row` is the whole old row. Raises as `insert`."""
        made, mutation = self._touch(table)
        encoded = made.delete(row)
        self._count(len(encoded))
        mutation.deleted_rows.append(encoded)
        mutation.sequence.append(DeleteRow)
        self._mutations[made.id] = mutation

    def _touch(self, name: str) -> tuple[Table, TableMutation]:
        if not self._is_open:
            raise TransactionEnded("the transaction is not open", hint="use it in `async with`")
        table = self._catalog.table(name)
        first = self._tables.setdefault(table.id, table)
        if first is not table:
            raise SchemaChanged(f"{table.name} changed while the transaction ran")
        return table, self._mutations.get(table.id) or TableMutation(table_id=table.id)

    def _count(self, size: int) -> None:
        if self._bytes + size > MAX_BYTES:
            raise BadInput(
                f"the transaction exceeds {MAX_BYTES} bytes", hint="commit in smaller parts"
            )
        self._bytes += size

    async def _commit(self) -> int:
        try:
            self._check_schema()
        except SchemaChanged:
            self._upstream.end(self.start_ts)
            raise
        value = PrewriteValue(
            schema_version=self._catalog.version, mutations=list(self._mutations.values())
        )
        prewrite = Binlog(start_ts=self.start_ts, prewrite_value=value.SerializeToString())
        return await self._upstream.commit(prewrite, self._may_commit)

    async def _may_commit(self) -> None:
        """TiDB's schema check. commit_ts is known: a job that isn't in the history now gets a
        binlog with a larger one, so these rows come before it."""
        self._catalog = await self._upstream.catalog()
        self._check_schema()

    def _check_schema(self) -> None:
        for table_id in self._mutations:
            table = self._tables[table_id]
            if not self._catalog.is_newest(table):
                raise SchemaChanged(f"{table.name} was altered or dropped meanwhile")
