"""Bodies of the stream as Arrow columns: the images of rows stay the JSON that they are. Pure.

No object is made of an image: its text is cut out of the body, and all texts of a column become one
buffer. JSON has no zero byte, so that one can stand between two texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import pyarrow as pa

from tidelog.errors import UnparsablePayload
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
    op: str
    commit_ts: int
    key: msgspec.Raw = _NOTHING
    before: msgspec.Raw = _NOTHING
    after: msgspec.Raw = _NOTHING
    b64: list[str] = []


class _Message(msgspec.Struct, gc=False):
    db: str
    table: str
    events: list[_Event]


_MESSAGE = msgspec.json.Decoder(_Message)


def batches(bodies: Iterable[Body]) -> Iterator[pa.RecordBatch]:
    """Of some thousand changes, or some MiB. Raises UnparsablePayload."""
    rows = _Rows()
    for body in bodies:
        rows.add(body)
        if len(rows.events) >= BATCH_ROWS or rows.size >= BATCH_BYTES:
            yield rows.batch()
            rows = _Rows()
    if rows.events:
        yield rows.batch()


class _Rows:
    """A batch in the making."""

    def __init__(self) -> None:
        self.events: list[_Event] = []
        self.size = 0
        self._dbs: list[str] = []
        self._tables: list[str] = []
        self._starts: list[int] = []
        self._seqs: list[int] = []

    def add(self, body: Body) -> None:
        try:
            message = _MESSAGE.decode(body.body)
        except msgspec.DecodeError as error:
            raise UnparsablePayload(f"a row message can't be read: {error}") from error
        events = message.events
        seqs: Iterable[int] = range(body.seq, body.seq + len(events))
        if events and events[0].commit_ts <= body.after:
            shown = [one for one in zip(seqs, events, strict=True) if one[1].commit_ts > body.after]
            seqs, events = [seq for seq, _ in shown], [event for _, event in shown]
        count = len(events)
        self.events += events
        self.size += len(body.body)
        self._seqs += seqs
        self._starts += [body.start_ts] * count
        self._dbs += [message.db] * count
        self._tables += [message.table] * count

    def batch(self) -> pa.RecordBatch:
        events = self.events
        columns = [
            pa.array([one.commit_ts for one in events], pa.int64()),
            pa.array(self._starts, pa.int64()),
            pa.array(self._seqs, pa.int64()),
            pa.array(self._dbs, pa.string()),
            pa.array(self._tables, pa.string()),
            pa.array([one.op for one in events], pa.string()),
            texts([one.key for one in events]),
            texts([one.before for one in events]),
            texts([one.after for one in events]),
            pa.array([one.b64 for one in events], pa.list_(pa.string())),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def texts(raws: list[msgspec.Raw]) -> pa.Array:
    """A column of them; null where there is nothing, or null."""
    joined = np.frombuffer(b"\0".join([*raws, _NOTHING]), np.uint8)
    is_end = joined == 0
    offsets = np.zeros(len(raws) + 1, np.int32)
    offsets[1:] = np.flatnonzero(is_end) - np.arange(len(raws))
    lengths = np.diff(offsets)
    valid = (lengths > 0) & (lengths != _NULL)
    nulls = len(raws) - int(valid.sum())
    mask = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
    parts = [mask, pa.py_buffer(offsets), pa.py_buffer(joined[~is_end])]
    return pa.Array.from_buffers(pa.string(), len(raws), parts, nulls)
