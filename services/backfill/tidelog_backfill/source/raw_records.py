"""Records as they lie in the files, as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator

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


def batches(chunk: Chunk, on_corrupt: OnCorrupt) -> Iterator[pa.RecordBatch]:
    """About a MiB each. Raises Corrupt."""
    if chunk.kind == "pb":
        for record in pb.records(chunk, on_corrupt):
            yield _batch(chunk, [(record.offset, memoryview(record.payload))])
        return
    with LogFile(chunk.path) as file:
        for step in Records(file, chunk, on_corrupt).steps():
            yield _batch(chunk, step)


def _batch(chunk: Chunk, step: list[Placed]) -> pa.RecordBatch:
    heads = [_head(chunk, offset, payload) for offset, payload in step]
    columns = [
        pa.array([chunk.path] * len(step), pa.string()),
        pa.array([offset for offset, _ in step], pa.int64()),
        pa.array([kind for kind, _, _ in heads], pa.string()),
        pa.array([start_ts for _, start_ts, _ in heads], pa.int64()),
        pa.array([commit_ts for _, _, commit_ts in heads], pa.int64()),
        pa.array([bytes(payload) for _, payload in step], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


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
