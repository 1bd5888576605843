"""Events of the stream as rows of pb_binlog, in the original's types and encodings. Pure.

The messages are put together here, in the order of their fields: what protobuf would make of them,
without an object for each cell.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Collection, Sequence
from struct import Struct
from typing import Any, Final

from tidelog.changes import DdlMessage, Event
from tidelog.downstreams.pb_json import json_text
from tidelog.rows import datum
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_proto import pb_binlog_pb2 as pb

TYPES: Final = {
    "tinyint": 1,
    "smallint": 2,
    "int": 3,
    "float": 4,
    "double": 5,
    "null": 6,
    "timestamp": 7,
    "bigint": 8,
    "mediumint": 9,
    "date": 10,
    "time": 11,
    "datetime": 12,
    "year": 13,
    "varchar": 15,
    "varbinary": 15,
    "bit": 16,
    "json": 245,
    "decimal": 246,
    "enum": 247,
    "set": 248,
    "tinytext": 249,
    "tinyblob": 249,
    "mediumtext": 250,
    "mediumblob": 250,
    "longtext": 251,
    "longblob": 251,
    "text": 252,
    "blob": 252,
    "char": 254,
    "binary": 254,
    "geometry": 255,
}
"""MySQL's numbers of the types by their names."""
_OPS: Final = {
    "c": pb.EventType.Insert,
    "r": pb.EventType.Insert,
    "u": pb.EventType.Update,
    "d": pb.EventType.Delete,
}
_INTEGERS: Final = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint"))
_F32 = Struct("<f")
# Field number and wire type, of fields that hold bytes.
_ROW, _VALUE, _CHANGED, _EVENT, _DML = b"\x22", b"\x22", b"\x2a", b"\x0a", b"\x1a"

Put = Callable[[bytearray, Any], None]


def _field(tag: bytes, content: bytes) -> bytes:
    out = bytearray(tag)
    datum.put_uvarint(out, len(content))
    return bytes(out + content)


class _Cell:
    """One column: what stands before its value, and how that is encoded."""

    def __init__(self, column: ColumnStructure) -> None:
        self.name = column.name
        number = TYPES.get(column.base, 0)
        head = pb.Column(name=column.name, tp=bytes([number]), mysql_type=column.base)
        self.head = head.SerializeToString()
        self._put = _put(column)
        self._binary = column.binary

    def value(self, value: Any, is_base64: bool) -> bytes:
        out = bytearray()
        if value is None:
            out.append(datum.NIL)
        elif is_base64 or self._binary:
            # A JSON column that holds `null` comes so too: its text, in base64.
            datum.put_bytes_datum(out, b64decode(value))
        else:
            self._put(out, value)
        return bytes(out)


class RowEncoder:
    """Of one table's structure; callers keep it."""

    def __init__(self, db: str, structure: TableStructure) -> None:
        self._cells = [_Cell(column) for column in structure.columns]
        self._heads = {
            op: pb.Event(schema_name=db, table_name=structure.name, tp=tp).SerializeToString()
            for op, tp in _OPS.items()
        }

    def encode(self, event: Event) -> bytes:
        """One row change, to be joined with others within DMLData. Columns that the event lacks
        (virtual generated ones) are left out. Raises ValueError and its kin for a value that its
        column can't have."""
        marks = event.b64
        before, after = event.before, event.after
        if event.op == "u" and before is not None and after is not None:
            row = self._changed(before, after, marks)
        else:
            row = self._whole((after if before is None else before) or {}, marks)
        return _field(_EVENT, b"".join([self._heads[event.op], *row]))

    def _whole(self, image: dict[str, Any], marks: Collection[str]) -> list[bytes]:
        return [
            _field(
                _ROW, cell.head + _field(_VALUE, cell.value(image[cell.name], cell.name in marks))
            )
            for cell in self._cells
            if cell.name in image
        ]

    def _changed(
        self, before: dict[str, Any], after: dict[str, Any], marks: Collection[str]
    ) -> list[bytes]:
        found = []
        for cell in self._cells:
            name = cell.name
            if name in after:
                marked = name in marks
                old = _field(_VALUE, cell.value(before.get(name), marked))
                new = _field(_CHANGED, cell.value(after[name], marked))
                found.append(_field(_ROW, cell.head + old + new))
        return found


def dml(commit_ts: int, events: Sequence[bytes]) -> bytes:
    """The Binlog of one transaction."""
    head = pb.Binlog(tp=pb.BinlogType.DML, commit_ts=commit_ts).SerializeToString()
    return head + _field(_DML, b"".join(events))


def ddl(message: DdlMessage) -> bytes:
    """The Binlog of a DDL; an unqualified query runs in the schema that stands in front."""
    query = f"{message.query};"
    if message.db and message.kind != "create_schema":
        name = message.db.replace("`", "``")
        query = f"use `{name}`; {query}"
    return pb.Binlog(
        tp=pb.BinlogType.DDL, commit_ts=message.commit_ts, ddl_query=query.encode()
    ).SerializeToString()


def _put(column: ColumnStructure) -> Put:
    base = column.base
    if base in _INTEGERS:
        return _put_unsigned if column.unsigned else _put_signed
    if base == "year":
        return _put_signed
    if base == "bit":
        return _put_unsigned
    if base == "enum":
        return _enum(column.elems)
    if base == "set":
        return _set(column.elems)
    if base == "float":
        return _put_float32
    if base == "double":
        return _put_float64
    if base == "json":
        return _put_json
    return _put_text


def _put_signed(out: bytearray, value: Any) -> None:
    datum.put_int_datum(out, int(value))


def _put_unsigned(out: bytearray, value: Any) -> None:
    datum.put_uint_datum(out, int(value))


def _put_float64(out: bytearray, value: Any) -> None:
    out.append(datum.FLOAT)
    datum.put_float(out, float(value))


def _put_float32(out: bytearray, value: Any) -> None:
    _put_float64(out, _F32.unpack(_F32.pack(float(value)))[0])


def _put_text(out: bytearray, value: Any) -> None:
    datum.put_bytes_datum(out, str(value).encode())


def _put_json(out: bytearray, value: Any) -> None:
    datum.put_bytes_datum(out, json_text(value).encode())


def _enum(elems: Sequence[str]) -> Put:
    numbers = {"": 0} | {elem: number for number, elem in reversed([*enumerate(elems, 1)])}

    def put(out: bytearray, value: Any) -> None:
        datum.put_uint_datum(out, numbers[value])

    return put


def _set(elems: Sequence[str]) -> Put:
    bits = {elem: 1 << at for at, elem in reversed([*enumerate(elems)])}

    def put(out: bytearray, value: Any) -> None:
        datum.put_uint_datum(out, sum(bits[part] for part in set(value.split(",")) if value))

    return put
