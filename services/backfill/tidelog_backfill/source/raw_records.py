"""Records as they lie in the files, as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError

from tidelog.errors import UnparsablePayload
from tidelog.payload import classify
from tidelog.relay.records import parsed
from tidelog_backfill.files import pb
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.records import LogFile, OnCorrupt, Placed, Records, corrupt
from tidelog_proto.pb_binlog_pb2 import Binlog, BinlogType

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


def batches(chunk: Chunk, schema: pa.Schema, on_corrupt: OnCorrupt) -> Iterator[pa.RecordBatch]:
    """About a MiB each. `schema`: fields of SCHEMA. Raises Corrupt."""
    if chunk.kind == "pb":
        for record in pb.records(chunk, on_corrupt):
            yield _batch(chunk, [(record.offset, memoryview(record.payload))], schema)
        return
    with LogFile(chunk.path) as file:
        for step in Records(file, chunk, on_corrupt).steps():
            yield _batch(chunk, step, schema)


def _batch(chunk: Chunk, step: list[Placed], schema: pa.Schema) -> pa.RecordBatch:
    kinds, starts, commits = zip(*(_head(chunk, *one) for one in step), strict=True)
    columns: dict[str, Iterable[Any]] = {
        "file": repeat(chunk.path, len(step)),
        "offset": (offset for offset, _ in step),
        "kind": kinds,
        "start_ts": starts,
        "commit_ts": commits,
        "payload": (bytes(payload) for _, payload in step),
    }
    arrays = [pa.array(columns[field.name], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _head(chunk: Chunk, offset: int, payload: bytes | memoryview) -> _Head:
    try:
        if chunk.kind == "relay":
            one = parsed(payload)
            return one.WhichOneof("content") or "", 0, one.batch.commit_ts
        if chunk.kind == "pb":
            binlog = Binlog.FromString(bytes(payload))
            return BinlogType.Name(binlog.tp).lower(), 0, binlog.commit_ts
        facts = classify(payload)
    except (UnparsablePayload, DecodeError) as error:
        raise corrupt(chunk.path, offset, str(error)) from error
    return facts.kind.name.lower(), facts.start_ts, facts.commit_ts
