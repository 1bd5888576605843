"""A transaction being built: row changes in order, each legal after the ones before it. Pure."""

from __future__ import annotations

import msgspec

from tidelog.workload.source import Key, Source, SourceTable
from tidelog.workload.table_kinds import Row
from tidelog_proto.binlog_pb2 import (
    Binlog,
    DeleteRow,
    Insert,
    Prewrite,
    PrewriteValue,
    TableMutation,
    Update,
)


class Change(msgspec.Struct, frozen=True):
    """`op`: c, u or d, as in the change stream."""

    table: SourceTable
    op: str
    row_id: int
    before: Row | None
    after: Row | None


class Draft:
    """Locks what it touches; `release` when the transaction's fate is decided."""

    def __init__(self, source: Source, start_ts: int) -> None:
        self._source = source
        self.start_ts = start_ts
        self.schema_version = source.schema_version
        self.changes: list[Change] = []
        self.tables: dict[int, SourceTable] = {}
        self._rows: dict[tuple[int, int], Row | None] = {}
        self._taken: set[tuple[int, Key]] = set()
        self._freed: set[tuple[int, Key]] = set()

    def own_rows(self, table: SourceTable) -> list[int]:
        """Rows of the table that this transaction wrote and that still exist."""
        own = table.info.id
        return [at for (table_id, at), row in self._rows.items() if table_id == own and row]

    def row(self, table: SourceTable, row_id: int) -> Row | None:
        """The row as this transaction sees it; None if it is gone or locked by another."""
        key = (table.info.id, row_id)
        if key in self._rows:
            return self._rows[key]
        if table.locked.get(row_id, self.start_ts) != self.start_ts:
            return None
        return table.rows.get(row_id)

    def insert(self, table: SourceTable, row: Row) -> bool:
        """False when a unique key is taken."""
        if not self._take(table, row, ()):
            return False
        self._add(table, "c", table.new_row_id(), None, row)
        return True

    def update(self, table: SourceTable, row_id: int, after: Row) -> bool:
        before = self.row(table, row_id)
        if before is None or before == after:
            return False
        old = table.key_values(before)
        if not self._take(table, after, old):
            return False
        new = table.key_values(after)
        self._free(table, [key for key in old if key not in new])
        self._add(table, "u", row_id, before, after)
        return True

    def delete(self, table: SourceTable, row_id: int) -> bool:
        before = self.row(table, row_id)
        if before is None:
            return False
        self._free(table, table.key_values(before))
        self._add(table, "d", row_id, before, None)
        return True

    def _take(self, table: SourceTable, row: Row, own: list[Key] | tuple[()]) -> bool:
        wanted = [(table.info.id, key) for key in table.key_values(row) if key not in own]
        for marked in wanted:
            key = marked[1]
            mine = table.claimed.get(key) == self.start_ts
            if marked in self._taken or (key in table.claimed and not mine):
                return False
            if key in table.keys and marked not in self._freed:
                return False
        for marked in wanted:
            table.claimed[marked[1]] = self.start_ts
            self._taken.add(marked)
        return True

    def _free(self, table: SourceTable, keys: list[Key]) -> None:
        for key in keys:
            self._taken.discard((table.info.id, key))
            self._freed.add((table.info.id, key))

    def _add(
        self, table: SourceTable, op: str, row_id: int, before: Row | None, after: Row | None
    ) -> None:
        if table.info.id not in self.tables:
            assert not table.blocked
            self.tables[table.info.id] = table
            table.enter()
        self._rows[table.info.id, row_id] = after
        table.locked[row_id] = self.start_ts
        self.changes.append(Change(table, op, row_id, before, after))

    def apply(self, commit_ts: int) -> None:
        """Make it part of the source."""
        for change in self.changes:
            change.table.put(change.row_id, change.before, change.after)
        self._source.last_commit_ts = max(self._source.last_commit_ts, commit_ts)

    def release(self) -> None:
        for table in self.tables.values():
            table.leave(self.start_ts)

    def prewrite(self) -> Binlog:
        """The Prewrite as TiDB writes it: one TableMutation a table, `sequence` in order."""
        mutations = {table_id: TableMutation(table_id=table_id) for table_id in self.tables}
        for change in self.changes:
            _append(mutations[change.table.info.id], change)
        value = PrewriteValue(
            schema_version=self.schema_version, mutations=list(mutations.values())
        )
        return Binlog(
            tp=Prewrite,
            start_ts=self.start_ts,
            prewrite_key=record_key(self.changes[0]),
            prewrite_value=value.SerializeToString(),
        )


def _append(mutation: TableMutation, change: Change) -> None:
    codec = change.table.codec
    if change.op == "c":
        assert change.after is not None
        mutation.inserted_rows.append(codec.encode_insert(change.after, change.row_id))
        mutation.sequence.append(Insert)
    elif change.op == "u":
        assert change.before is not None
        assert change.after is not None
        mutation.updated_rows.append(
            codec.encode_update(change.before, change.after, change.row_id)
        )
        mutation.sequence.append(Update)
    else:
        assert change.before is not None
        mutation.deleted_rows.append(codec.encode_delete(change.before, change.row_id))
        mutation.sequence.append(DeleteRow)


def record_key(change: Change) -> bytes:
    """TiKV's key of a row: `t` table id `_r` row id, both order-preserving."""
    table_id = (change.table.info.id + (1 << 63)).to_bytes(8, "big")
    return b"t" + table_id + b"_r" + (change.row_id + (1 << 63)).to_bytes(8, "big")
