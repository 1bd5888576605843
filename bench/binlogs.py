"""Binlogs as a TiDB writes them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from bench.tables import BenchTable
from tidelog.rows import datum
from tidelog.timestamps import compose
from tidelog_proto.binlog_pb2 import (
    Binlog,
    Commit,
    DeleteRow,
    Insert,
    MutationType,
    Prewrite,
    PrewriteValue,
    TableMutation,
    Update,
)
from tidelog_proto.transport_pb2 import WriteBatch

BATCH_BYTES = 240 << 10
FIRST_ID = 1 << 40
KEY = b"t\x80\x00\x00\x00\x00\x00\x00\x65_r\x80\x00\x00\x00\x00\x00\x00\x01"
FIELDS: Mapping[str, MutationType.ValueType] = {"c": Insert, "u": Update, "d": DeleteRow}


class Timestamps:
    """Strictly increasing timestamps near the wall clock, for Pumps that follow (I9)."""

    def __init__(self, wall_ms: int) -> None:
        self._last = compose(wall_ms)

    def next(self) -> int:
        self._last += 1
        return self._last


def prewrite_value(
    schema_version: int, table_id: int, changes: Sequence[tuple[str, bytes]]
) -> bytes:
    """`changes`: (op c, u or d, encoded row) of one table, in order."""
    mutation = TableMutation(
        table_id=table_id,
        inserted_rows=[row for op, row in changes if op == "c"],
        updated_rows=[row for op, row in changes if op == "u"],
        deleted_rows=[row for op, row in changes if op == "d"],
        sequence=[FIELDS[op] for op, _ in changes],
    )
    return PrewriteValue(schema_version=schema_version, mutations=[mutation]).SerializeToString()


def prewrite(start_ts: int, value: bytes) -> bytes:
    return Binlog(
        tp=Prewrite, start_ts=start_ts, prewrite_key=KEY, prewrite_value=value
    ).SerializeToString()


def commit(start_ts: int, commit_ts: int) -> bytes:
    return Binlog(
        tp=Commit, start_ts=start_ts, commit_ts=commit_ts, prewrite_key=KEY
    ).SerializeToString()


def padded_value(size: int, start_ts: int) -> bytes:
    """A prewrite_value with one inserted row that makes the Prewrite `size` bytes."""
    length = size
    while True:
        value = prewrite_value(1, 101, [("c", bytes(length))])
        excess = len(prewrite(start_ts, value)) - size
        if excess <= 0:
            return value
        length -= excess


def batches(cluster_id: int, payloads: Sequence[bytes]) -> Iterator[bytes]:
    """WriteBatch messages of the payloads in order, below the bus limit."""
    piece: list[bytes] = []
    size = 0
    for payload in payloads:
        if piece and size + len(payload) > BATCH_BYTES:
            yield WriteBatch(cluster_id=cluster_id, payloads=piece).SerializeToString()
            piece, size = [], 0
        piece.append(payload)
        size += len(payload) + 8
    if piece:
        yield WriteBatch(cluster_id=cluster_id, payloads=piece).SerializeToString()


def large_prewrite(table: BenchTable, version: int, start_ts: int, rows: int, size: int) -> bytes:
    """A Prewrite of about `size` bytes that inserts `rows` rows, ids from FIRST_ID on, into a table
    of id and note; its fields in the order that a TiDB writes them."""
    width = max(1, size // rows - 30)
    model = table.codec.encode_insert({"id": 7, "note": "n" * width}, 7)
    tail = model[len(_handle(7)) :]
    other = table.codec.encode_insert({"id": FIRST_ID, "note": "n" * width}, FIRST_ID)
    assert other == _handle(FIRST_ID) + tail
    inserts = bytearray()
    for number in range(FIRST_ID, FIRST_ID + rows):
        row = _handle(number) + tail
        inserts += b"\x12" + _varint(len(row)) + row
    fields = b"\x08" + _varint(table.info.id)
    mutation = b"".join((fields, inserts, b"".join(repeat(b"\x38\x00", rows))))
    value = b"".join((b"\x08", _varint(version), b"\x12", _varint(len(mutation)), mutation))
    head = Binlog(tp=Prewrite, start_ts=start_ts, prewrite_key=KEY).SerializeToString()
    return b"".join((head, b"\x2a", _varint(len(value)), value))


def _handle(number: int) -> bytes:
    out = bytearray()
    datum.put_int_datum(out, number)
    return bytes(out)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
