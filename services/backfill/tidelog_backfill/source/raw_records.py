"""Records as they lie in the files, as Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidelog.errors import UnparsablePayload
from tidelog.payload import classify
from tidelog.relay.records import parsed
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.records import LogFile, OnCorrupt, Placed, Records, corrupt

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


def _head(chunk: Chunk, offset: int, payload: memoryview) -> _Head:
    try:
        if chunk.kind == "relay":
            one = parsed(payload)
            return one.WhichOneof("content") or "", 0, one.batch.commit_ts
        facts = classify(payload)
    except UnparsablePayload as error:
        raise corrupt(chunk.path, offset, error.message) from error
    return facts.kind.name.lower(), facts.start_ts, facts.commit_ts
