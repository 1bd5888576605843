"""TableMutations of one table at one schema version, decoded into row changes and encoded back.

Appendix B.10 and the fixtures' README ("What the wire taught") are the source of the layouts:
an insert is handle datums and a row, an update the old row and the new row, a delete a row.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping

import msgspec

from tidelog.rows import datum
from tidelog.rows.any_datum import read_datum
from tidelog.rows.column import Column, base64_text
from tidelog.rows.errors import BadValue, Malformed, RowCorrupt
from tidelog.rows.key_columns import handle_column, key_columns, primary_index
from tidelog.rows.payload import MutationRows
from tidelog.rows.row import read_row, slots_for
from tidelog.rows.values import T_JSON, Value
from tidelog.schema.model import UNSPECIFIED_LENGTH, TableInfo
from tidelog_proto.binlog_pb2 import TableMutation

INSERT = 0
UPDATE = 1
DELETE = 4

_LISTS = {INSERT: "inserted_rows", UPDATE: "updated_rows", DELETE: "deleted_rows"}
_HIDDEN_HANDLE_ID = -1
_NO_STOP = -1
_NOTHING: frozenset[str] = frozenset()

Row = dict[str, Value]
Images = tuple[str, Row | None, Row | None, list[str]]
"""op, before, after, b64: as in RowChange."""
AnyMutation = TableMutation | MutationRows


class RowChange(msgspec.Struct, frozen=True, gc=False):
    """One row's change. `op`: c created, u updated, d deleted; images are the columns the wire
    carries, filled up as B.10 says. Columns named in `b64` hold base64 in both images."""

    op: str
    before: dict[str, Value] | None
    after: dict[str, Value] | None
    b64: tuple[str, ...] = ()


class TableCodec:
    """Precomputed for one TableInfo; callers cache it per (table id, version)."""

    def __init__(self, table: TableInfo) -> None:
        self.table = table
        self.key_columns: tuple[str, ...] = key_columns(table)
        columns = [Column(info) for info in table.columns]
        shown = [column for column in columns if column.info.public]
        stored = [column for column in shown if not column.info.virtual]
        self._columns = {column.name: column for column in shown}
        self._stored = stored
        self._slots = slots_for(stored)
        # Only deletes carry virtual generated columns.
        self._delete_slots = slots_for(shown)
        self._order = [column.name for column in stored]
        self._delete_order = [column.name for column in shown]
        self._nulls = frozenset(column.name for column in stored if _may_be_left_out(column))
        self._handle: Column | None = None
        self._unsigned_handle = False
        at = handle_column(table)
        if at is not None:
            self._handle = columns[at]
            self._unsigned_handle = columns[at].info.unsigned
        self._key: list[tuple[Column, int]] = []
        index = primary_index(table) if table.is_common_handle else None
        if index is not None:
            self._key = [(columns[part.offset], part.length) for part in index.idx_cols]

    def decode(self, mutation: AnyMutation, own_schema: bool = False) -> list[RowChange]:
        """All changes in `sequence` order. Raises RowCorrupt, nothing else.

        `own_schema`: the mutation's schema version is not below this table's. A column that its
        rows lack is then about to be dropped, and is left out instead of filled: a made-up value
        would be found in no row downstream.
        """
        return [
            RowChange(op, before, after, tuple(marks) if marks else ())
            for op, before, after, marks in self.images(mutation, own_schema)
        ]

    def images(self, mutation: AnyMutation, own_schema: bool) -> list[Images]:
        """`decode` without a struct for each row."""
        sequence: list[int] = list(mutation.sequence)
        inserted: list[bytes] = list(mutation.inserted_rows)
        updated: list[bytes] = list(mutation.updated_rows)
        deleted: list[bytes] = list(mutation.deleted_rows)
        table_id = mutation.table_id
        for kind, rows in ((INSERT, inserted), (UPDATE, updated), (DELETE, deleted)):
            if sequence.count(kind) != len(rows):
                raise RowCorrupt(table_id, _LISTS[kind], -1, "the sequence names another count")
        if len(sequence) != len(inserted) + len(updated) + len(deleted):
            raise RowCorrupt(table_id, "sequence", -1, "an obsolete mutation type")
        found: list[Images] = []
        inserts = updates = deletes = at = 0
        kind = INSERT
        try:
            for kind in sequence:
                if kind == INSERT:
                    at = inserts
                    inserts += 1
                    found.append(self._insert(inserted[at], own_schema))
                elif kind == UPDATE:
                    at = updates
                    updates += 1
                    found.append(self._update(updated[at], own_schema))
                else:
                    at = deletes
                    deletes += 1
                    found.append(self._delete(deleted[at], own_schema))
        except (Malformed, UnicodeDecodeError, OverflowError) as error:
            raise RowCorrupt(table_id, _LISTS[kind], at, str(error)) from error
        except (IndexError, struct.error) as error:
            reason = "the row ends in the middle of a value"
            raise RowCorrupt(table_id, _LISTS[kind], at, reason) from error
        return found

    def _insert(self, buf: bytes, own_schema: bool) -> Images:
        row: Row = {}
        marks: list[str] = []
        p = 0
        handles: list[tuple[int, Value | bytes]] = []
        if self._key:
            for _ in self._key:
                flag, raw, p = read_datum(buf, p)
                handles.append((flag, raw))
        else:
            if buf[0] != datum.VARINT:
                raise Malformed("an integer handle is expected")
            handle, p = datum.read_varint(buf, 1)
            if self._handle is not None:
                row[self._handle.name] = handle & datum.MASK64 if self._unsigned_handle else handle
        if not (buf[p] == datum.NIL and p + 1 == len(buf)):
            read_row(buf, p, self._slots, row, marks, _NO_STOP)
        if handles:
            self._add_key(handles, row, marks)
        if len(row) != len(self._order) or handles:
            # TiDB leaves NULLs out of an insert where they are the default.
            left_out = self._nulls if own_schema else None
            row = self._fill(row, self._order, left_out, marks)
        return "c", None, row, marks

    def _update(self, buf: bytes, own_schema: bool) -> Images:
        before: Row = {}
        after: Row = {}
        marks: list[str] = []
        marks_after: list[str] = []
        stop, _ = datum.read_uvarint(buf, 1)
        p = read_row(buf, 0, self._slots, before, marks, stop)
        if p == len(buf):
            raise Malformed("an update has one image only")
        read_row(buf, p, self._slots, after, marks_after, _NO_STOP)
        if before.keys() != after.keys():
            raise Malformed("the images of an update have different columns")
        if len(before) != len(self._order):
            left_out = _NOTHING if own_schema else None
            before = self._fill(before, self._order, left_out, marks)
            after = self._fill(after, self._order, left_out, marks_after)
        if marks or marks_after:
            self._agree(before, marks, marks_after)
            self._agree(after, marks_after, marks)
            return "u", before, after, list(dict.fromkeys(marks + marks_after))
        return "u", before, after, marks

    def _delete(self, buf: bytes, own_schema: bool) -> Images:
        row: Row = {}
        marks: list[str] = []
        # A row of nothing but NULLs that were left out is a single NIL.
        if not (buf[0] == datum.NIL and len(buf) == 1):
            read_row(buf, 0, self._delete_slots, row, marks, _NO_STOP)
        if len(row) != len(self._delete_order):
            left_out = _NOTHING if own_schema else None
            row = self._fill(row, self._delete_order, left_out, marks)
        return "d", row, None, marks

    def _add_key(
        self, handles: list[tuple[int, Value | bytes]], row: Row, marks: list[str]
    ) -> None:
        """Take from a common handle what the row lacks: a column whose sort key is not its value
        (or is a prefix of it) is always in the row."""
        for (column, length), (flag, raw) in zip(self._key, handles, strict=True):
            if column.name not in row:
                if length != UNSPECIFIED_LENGTH:
                    raise Malformed(f"the row lacks the prefix-indexed column {column.name}")
                row[column.name] = column.value(flag, raw, marks)

    def _fill(
        self, row: Row, order: list[str], only: frozenset[str] | None, marks: list[str]
    ) -> Row:
        """The row in column order, its missing columns filled: all (None) or `only` these.
        Virtual columns stay missing."""
        full: Row = {}
        for name in order:
            if name in row:
                full[name] = row[name]
            elif (only is None or name in only) and not self._columns[name].info.virtual:
                full[name] = self._columns[name].default(marks)
        return full

    def _agree(self, row: Row, own: list[str], other: list[str]) -> None:
        """`b64` names a column for both images: convert those that only the other image needs."""
        for name in other:
            value = row[name]
            if name in own or value is None:
                continue
            if self._columns[name].tp == T_JSON:
                row[name] = base64_text(msgspec.json.encode(value))
            else:
                row[name] = base64_text(str(value).encode())

    def encode_insert(
        self, row: Mapping[str, Value], handle: int | None, b64: Collection[str] = ()
    ) -> bytes:
        """A row of `inserted_rows`. `handle` is the hidden row id, needed only without a clustered
        key; names in `b64` hold base64 (binary columns always do). Raises BadValue.

        Of a collated key column the handle holds the plain bytes, not TiDB's sort key: readers
        take such a column from the row.
        """
        out = bytearray()
        if self._handle is not None:
            datum.put_int_datum(out, _signed(row.get(self._handle.name), self._handle.name))
        elif self._key:
            for column, _ in self._key:
                column.put(out, row.get(column.name), column.name in b64)
        else:
            datum.put_int_datum(out, _signed(handle, "_tidb_rowid"))
        start = len(out)
        for column in self._stored:
            if not self._left_out(column, row.get(column.name)):
                self._put_pair(out, column, row, b64)
        if len(out) == start:
            out.append(datum.NIL)
        return bytes(out)

    def encode_update(
        self,
        old: Mapping[str, Value],
        new: Mapping[str, Value],
        handle: int | None,
        b64: Collection[str] = (),
    ) -> bytes:
        """A row of `updated_rows`: both images of all stored columns. Raises BadValue."""
        return self._image(old, handle, b64, False) + self._image(new, handle, b64, False)

    def encode_delete(
        self, row: Mapping[str, Value], handle: int | None, b64: Collection[str] = ()
    ) -> bytes:
        """A row of `deleted_rows`: all columns, virtual ones if `row` has them. Raises BadValue."""
        return self._image(row, handle, b64, True)

    def _image(
        self, row: Mapping[str, Value], handle: int | None, b64: Collection[str], virtual: bool
    ) -> bytes:
        out = bytearray()
        for column in self._columns.values():
            if not column.info.virtual or (virtual and column.name in row):
                self._put_pair(out, column, row, b64)
        if self._handle is None and not self._key:
            datum.put_int_datum(out, _HIDDEN_HANDLE_ID)
            datum.put_int_datum(out, _signed(handle, "_tidb_rowid"))
        return bytes(out)

    def _put_pair(
        self, out: bytearray, column: Column, row: Mapping[str, Value], b64: Collection[str]
    ) -> None:
        datum.put_int_datum(out, column.info.id)
        column.put(out, row.get(column.name), column.name in b64)

    def _left_out(self, column: Column, value: Value) -> bool:
        """Columns that TiDB leaves out of an insert's row (its CanSkip)."""
        if column is self._handle:
            return True
        for part, length in self._key:
            if part is column:
                return length == UNSPECIFIED_LENGTH and not column.restored
        return value is None and _may_be_left_out(column)


def _may_be_left_out(column: Column) -> bool:
    """A NULL of this column needs no place in an insert's row."""
    info = column.info
    return info.default is None and info.origin_default is None and not info.not_null


def _signed(value: Value, name: str) -> int:
    """A handle as TiDB writes it: unsigned keys above 2^63 wrap into negative numbers."""
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64:
        raise BadValue(name, f"{value!r} is no 64-bit handle")
    return value - (1 << 64) if value >> 63 > 0 else value
