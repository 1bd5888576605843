"""Bodies of the stream as Arrow columns: the images of rows stay the JSON that they are. Pure.

No object is made of an image: its text is cut out of the body, and all texts of a column become one
buffer. What a body's rows have in common is kept once, and repeated by numpy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeVar

import msgspec
import numpy as np
import pyarrow as pa

from tidelog.errors import UnparsablePayload
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files.chunk import Body

BATCH_ROWS = 8192
BATCH_BYTES = 16 << 20
_NOTHING = msgspec.Raw()
_NULL = len("null")
"""No image or key is as short as this but `{}`, and null itself."""

SCHEMA = pa.schema(
    [
        ("commit_ts", pa.int64()),
        ("start_ts", pa.int64()),
        ("seq", pa.int64()),
        ("db", pa.string()),
        ("table", pa.string()),
        ("op", pa.string()),
        ("key", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("b64", pa.list_(pa.string())),
    ]
)


class _Event(msgspec.Struct, gc=False):
    """Nothing of it is anything that the garbage collector has to follow: `b64` neither."""

    op: str
    commit_ts: int
    key: msgspec.Raw = _NOTHING
    before: msgspec.Raw = _NOTHING
    after: msgspec.Raw = _NOTHING
    b64: msgspec.Raw = _NOTHING


class _Message(msgspec.Struct, gc=False):
    db: str
    table: str
    events: list[_Event]


_MESSAGE = msgspec.json.Decoder(_Message)
_NAMES = msgspec.json.Decoder(list[str])
T = TypeVar("T")
_commit_ts = attrgetter("commit_ts")


def batches(bodies: Iterable[Body], schema: pa.Schema = SCHEMA) -> Iterator[pa.RecordBatch]:
    """Of some thousand changes, or some MiB. `schema`: fields of SCHEMA. Raises
    UnparsablePayload."""
    rows = _Rows()
    for body in bodies:
        rows.add(body)
        if len(rows.events) >= BATCH_ROWS or rows.size >= BATCH_BYTES:
            yield rows.batch(schema)
            rows = _Rows()
    if rows.events:
        yield rows.batch(schema)


def _decoded(decoder: msgspec.json.Decoder[T], text: bytes | msgspec.Raw) -> T:
    try:
        return decoder.decode(text)
    except NOT_READABLE as error:
        raise UnparsablePayload(f"a row message can't be read: {error}") from error


class _Rows:
    """A batch in the making."""

    def __init__(self) -> None:
        self.events: list[_Event] = []
        self.size = 0
        # Of each body:
        self.dbs: list[str] = []
        self.tables: list[str] = []
        self.starts: list[int] = []
        self.firsts: list[int] = []
        self.counts: list[int] = []

    def add(self, body: Body) -> None:
        """Raises UnparsablePayload."""
        message = _decoded(_MESSAGE, body.body)
        events, first = message.events, body.seq
        if events and events[0].commit_ts <= body.after:
            cut = bisect_right(events, body.after, key=_commit_ts)
            events, first = events[cut:], first + cut
        self.events += events
        self.size += len(body.body)
        self.dbs.append(message.db)
        self.tables.append(message.table)
        self.starts.append(body.start_ts)
        self.firsts.append(first)
        self.counts.append(len(events))

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Raises UnparsablePayload."""
        columns = [_COLUMNS[name](self) for name in schema.names]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def spread(self, values: Sequence[str | int], kind: pa.DataType) -> pa.Array:
        """That of each body, for each of its rows."""
        bodies = np.repeat(np.arange(len(self.counts)), self.counts)
        return pa.array(values, kind).take(pa.array(bodies))

    def seqs(self) -> pa.Array:
        counts = np.asarray(self.counts)
        bases = np.asarray(self.firsts) - (counts.cumsum() - counts)
        return pa.array(np.repeat(bases, counts) + np.arange(len(self.events)), pa.int64())


_COLUMNS: dict[str, Callable[[_Rows], pa.Array]] = {
    "commit_ts": lambda rows: pa.array([one.commit_ts for one in rows.events], pa.int64()),
    "start_ts": lambda rows: rows.spread(rows.starts, pa.int64()),
    "seq": lambda rows: rows.seqs(),
    "db": lambda rows: rows.spread(rows.dbs, pa.string()),
    "table": lambda rows: rows.spread(rows.tables, pa.string()),
    "op": lambda rows: pa.array([one.op for one in rows.events], pa.string()),
    "key": lambda rows: texts([one.key for one in rows.events]),
    "before": lambda rows: texts([one.before for one in rows.events]),
    "after": lambda rows: texts([one.after for one in rows.events]),
    "b64": lambda rows: _lists([one.b64 for one in rows.events]),
}


def texts(raws: list[msgspec.Raw]) -> pa.Array:
    """A column of them; null where there is nothing, or null."""
    lengths = np.fromiter(map(len, raws), np.int32, len(raws))
    offsets = np.zeros(len(raws) + 1, np.int32)
    lengths.cumsum(out=offsets[1:])
    valid = (lengths > 0) & (lengths != _NULL)
    nulls = len(raws) - int(np.count_nonzero(valid))
    mask = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    parts = [mask, pa.py_buffer(offsets), pa.py_buffer(b"".join(raws))]
    return pa.Array.from_buffers(pa.string(), len(raws), parts, nulls)


def _lists(raws: list[msgspec.Raw]) -> pa.Array:
    """Nearly all are empty. Raises UnparsablePayload."""
    kind = pa.list_(pa.string())
    if not any(raws):
        offsets = pa.array(np.zeros(len(raws) + 1, np.int32))
        return pa.ListArray.from_arrays(offsets, pa.array([], pa.string()), type=kind)
    return pa.array([_decoded(_NAMES, raw) if raw else [] for raw in raws], kind)
