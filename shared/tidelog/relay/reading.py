"""Reading relay files: batches in commit order, large ones a piece at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import msgspec

from tidelog.changes import Marker
from tidelog.errors import Stopped
from tidelog.record_walk import walk
from tidelog.relay.batches import Batch, Handed, LargeBatch, TableKey, above, ddls_of
from tidelog.relay.files import Part, corrupt, parsed
from tidelog.relay.records import structures_in
from tidelog.schema.structure import TableStructure
from tidelog.unreadable import NOT_READABLE
from tidelog_proto.relay_pb2 import RelayBatch, RelayRecord

Placed = tuple[int, RelayRecord]
"""A record and the offset where it begins."""
_MARKER = msgspec.json.Decoder(Marker)


class RelayGap(Stopped):
    """The relay does not hold what comes next: a file of it is lost, or it begins too late."""

    default_hint = (
        "restore its files; while the feed's stream still holds what is not applied, delete its"
        " directory with all that is in it, and start again"
    )

    def __init__(self, position: int, after: int) -> None:
        super().__init__(f"changes after {position} up to {after} are not in the relay log")
        self.position = position
        self.after = after


async def records(part: Part, begin: int, end: int) -> AsyncIterator[list[Placed]]:
    """From offset to offset, a MiB or one record at a time. Raises Corrupt."""
    for step in walk(part.file.read, begin, end):
        await asyncio.sleep(0)
        yield [(offset, parsed(part.path, offset, payload)) for offset, payload in step.records]
        if step.bad:
            raise corrupt(part.path, step.end, step.bad)


async def pieces(part: Part, begin: int, end: int, count: int) -> AsyncIterator[list[bytes]]:
    """The `count` pieces of a large batch, whose own record is at `end`. The file is opened for
    it: the log may be opened anew meanwhile. Raises Corrupt."""
    number = 0
    own = replace(part, file=await part.disk.open(part.path))
    try:
        async for step in records(own, begin, end):
            for offset, one in step:
                if one.WhichOneof("content") != "piece" or one.piece.number != number:
                    raise corrupt(part.path, offset, f"piece {number} of a batch is not there")
                number += 1
                yield list(one.piece.rows)
    finally:
        own.file.close()
    if number != count:
        raise corrupt(part.path, end, f"it is a batch of {count} pieces, {number} are there")


async def batches(part: Part, end: int, after: int, reached: int) -> AsyncIterator[Handed]:
    """What the file holds above `after` up to offset `end`, in order. `reached`: what its reader
    has. Raises RelayGap, Corrupt."""
    known: dict[TableKey, TableStructure] = {}
    async for step in records(part, part.begin, end):
        for offset, one in step:
            batch = learned(part, offset, one, known)
            if batch is None or batch.commit_ts <= after:
                continue
            if batch.after > reached:
                raise RelayGap(reached, batch.after)
            yield _handed(part, offset, batch, max(after, batch.after), known)
            reached = batch.commit_ts


def large(part: Part, begin: int, end: int, count: int) -> Callable[[], AsyncIterator[list[bytes]]]:
    """How a LargeBatch reads its pieces."""
    return lambda: pieces(part, begin, end, count)


def learned(
    part: Part, offset: int, one: RelayRecord, known: dict[TableKey, TableStructure]
) -> RelayBatch | None:
    """The batch, if it is one; what the record says of tables is `known` from then on."""
    kind = one.WhichOneof("content")
    if kind not in ("piece", "batch"):
        raise corrupt(part.path, offset, f"a record of kind {kind} has no place here")
    try:
        known.update(structures_in(one.piece.tables if kind == "piece" else one.batch.tables))
    except NOT_READABLE as error:
        raise corrupt(part.path, offset, f"a table's structure: {error}") from error
    return one.batch if kind == "batch" else None


def _handed(
    part: Part, offset: int, batch: RelayBatch, after: int, known: dict[TableKey, TableStructure]
) -> Handed:
    try:
        marker, ddls = _MARKER.decode(batch.marker), ddls_of(batch.ddls)
    except NOT_READABLE as error:
        raise corrupt(part.path, offset, f"a body of the stream: {error}") from error
    txns = above(marker.txns, after)
    if batch.pieces:
        read = large(part, batch.pieces_at, offset, batch.pieces)
        size = offset - batch.pieces_at
        return LargeBatch(batch.commit_ts, after, txns, ddls, known, size, read)
    rows = list(batch.rows)
    size = sum(map(len, rows)) + sum(map(len, batch.ddls)) + len(batch.marker)
    return Batch(batch.commit_ts, after, txns, rows, ddls, known, size)
