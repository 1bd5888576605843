"""What travels from the tasks that read to those that write: a part's changes, many in a row.

Spark moves and sorts a few large rows, and need not know what is in them: of a spread table all
that a task has for one bucket of one part; of a table that goes in order a transaction's changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import NamedTuple

import msgspec

GONE, PUT, EVENT = 1, 2, 3
"""Of a key that no row has, of one that a row has; a change in order."""
BUNDLE_BYTES = 1 << 20
"""A larger one has a single change."""
PINNED = -1
"""In place of a bucket: the table has a value of which nobody can tell what it equals. Told to
every part."""
COUNTS = -1
"""In place of a table: what a chunk came to."""
CHANGE_BYTES = 64
"""About what a change takes beside its key and payload."""


class Change(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """`key`: equal for equal keys. `payload`: of a PUT the row, of GONE the key's columns, of an
    EVENT all of it, as JSON; `b64`: names that hold base64 in it."""

    form: int
    kind: int
    key: bytes
    commit_ts: int
    seq: int
    b64: list[str]
    payload: bytes


class Bundle(NamedTuple):
    """Changes of one bucket of a part. Sorted by (table, bucket, commit_ts, seq), what those of the
    first are: a part meets a bucket's bundles one after another, and a table's transactions in
    order."""

    part: int
    table: int
    bucket: int
    commit_ts: int
    seq: int
    data: bytes


ORDER = ("table", "bucket", "commit_ts", "seq")
in_order = attrgetter(*ORDER)
_pack = msgspec.msgpack.Encoder().encode
_CHANGES = msgspec.msgpack.Decoder(list[Change])


def bundles(part: int, table: int, bucket: int, changes: list[Change]) -> Iterator[Bundle]:
    begin = size = 0
    for at, change in enumerate(changes):
        more = len(change.key) + len(change.payload) + CHANGE_BYTES
        if size + more > BUNDLE_BYTES and at > begin:
            yield _bundle(part, table, bucket, changes[begin:at])
            begin, size = at, 0
        size += more
    yield _bundle(part, table, bucket, changes[begin:])


def _bundle(part: int, table: int, bucket: int, changes: list[Change]) -> Bundle:
    first = changes[0]
    return Bundle(part, table, bucket, first.commit_ts, first.seq, _pack(changes))


def unpacked(bundle: Bundle) -> list[Change]:
    return _CHANGES.decode(bundle.data)


def pinned(part: int, table: int) -> Bundle:
    return Bundle(part, table, PINNED, 0, 0, b"")


class Counts(msgspec.Struct):
    """`rows`: that were read of a step; `left_out` as `bodies` counts it, by reason."""

    rows: int = 0
    left_out: Counter[str] = msgspec.field(default_factory=Counter)

    def bundle(self) -> Bundle:
        """To some part: so they are told once, however often a task is tried."""
        return Bundle(0, COUNTS, 0, 0, 0, msgspec.json.encode(self))

    def add(self, told: bytes) -> None:
        more = msgspec.json.decode(told)
        self.rows += more["rows"]
        self.left_out.update(more["left_out"])


def counted(found: Iterable[Bundle], counts: Counts) -> Iterator[Bundle]:
    """A part's bundles without the counts, which are added up."""
    for bundle in found:
        if bundle.table == COUNTS:
            counts.add(bundle.data)
        else:
            yield bundle
