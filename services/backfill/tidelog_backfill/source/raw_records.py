"""Records as they lie in the files, as Arrow columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa

from tidelog import record
from tidelog.errors import UnparsablePayload
from tidelog.payload import classify
from tidelog.ports import Buffer
from tidelog.relay.records import parsed
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.pb import PbRecords
from tidelog_backfill.files.records import LogFile, OnCorrupt, Placed, Records
from tidelog_proto.pb_binlog_pb2 import BinlogType

SCHEMA = pa.schema(
    [
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("kind", pa.string()),
        ("start_ts", pa.int64()),
        ("commit_ts", pa.int64()),
        ("payload", pa.binary()),
    ]
)
_Head = tuple[str, int, int]
"""Kind, start_ts, commit_ts: 0 where the record has none."""
_Row = tuple[int, _Head, Buffer]
"""Offset, what it is, its payload."""


def batches(chunk: Chunk, schema: pa.Schema, on_corrupt: OnCorrupt) -> Iterator[pa.RecordBatch]:
    """About a MiB each. `schema`: fields of SCHEMA. Raises Corrupt."""
    if chunk.kind == "pb":
        for one, binlog in PbRecords(chunk, on_corrupt):
            head = BinlogType.Name(binlog.tp).lower(), 0, binlog.commit_ts
            yield _batch(chunk, [(one.offset, head, one.payload)], schema)
        return
    head_of = _of_relay if chunk.kind == "relay" else _of_segment
    with LogFile(chunk.path) as file:
        records = Records(file, chunk, on_corrupt)
        for step in records.steps():
            if rows := list(_rows(records, step, head_of)):
                yield _batch(chunk, rows, schema)


def _rows(
    records: Records, step: list[Placed], head_of: Callable[[Buffer], _Head]
) -> Iterator[_Row]:
    """Raises Corrupt."""
    for offset, payload in step:
        try:
            head = head_of(payload)
        except UnparsablePayload as error:
            records.lose(offset, record.HEADER_BYTES + len(payload), error.message)
        else:
            yield offset, head, payload


def _batch(chunk: Chunk, rows: list[_Row], schema: pa.Schema) -> pa.RecordBatch:
    kinds, starts, commits = zip(*(head for _, head, _ in rows), strict=True)
    columns: dict[str, Iterable[Any]] = {
        "file": repeat(chunk.path, len(rows)),
        "offset": (offset for offset, _, _ in rows),
        "kind": kinds,
        "start_ts": starts,
        "commit_ts": commits,
        "payload": (bytes(payload) for _, _, payload in rows),
    }
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _of_relay(payload: Buffer) -> _Head:
    """Raises UnparsablePayload."""
    one = parsed(payload)
    return one.WhichOneof("content") or "", 0, one.batch.commit_ts


def _of_segment(payload: Buffer) -> _Head:
    """Raises UnparsablePayload."""
    facts = classify(payload)
    return facts.kind.name.lower(), facts.start_ts, facts.commit_ts
