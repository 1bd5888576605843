"""A chunk of a relay log: its batches, and the bodies of rows that belong to whole ones.

Pieces of a large batch stand before the record that closes it. Those at a chunk's end are whole if
that record follows in the file; what is in between is passed over by its headers.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tidelog import record
from tidelog.errors import UnparsablePayload
from tidelog.ports import Buffer
from tidelog.relay.records import parsed
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.records import (
    LogFile,
    OnCorrupt,
    Records,
    behind,
    corrupt,
    is_whole,
)
from tidelog_proto.relay_pb2 import RelayBatch, RelayHeader, RelayPiece, RelayRecord

Content = RelayHeader | RelayPiece | RelayBatch


class Entry(msgspec.Struct, frozen=True):
    """A record. `rows`: bodies of RowMessages, if the batch they are of is whole; then events with
    commit_ts <= `after` were in batches before, all others have one <= `commit_ts`."""

    offset: int
    content: Content
    rows: list[bytes] = []
    after: int = 0
    commit_ts: int = 0


class Ahead(msgspec.Struct, frozen=True):
    """The batch that closes pieces, if it is their own: fields as RelayBatch has them."""

    offset: int
    pieces: int = 0
    pieces_at: int = 0
    after: int = 0
    commit_ts: int = 0


_NONE = Ahead(-1)
_BATCH = bytes((RelayRecord.BATCH_FIELD_NUMBER << 3 | 2,))
"""What the payload of a batch begins with."""


class Relay:
    """The records of a chunk. Iterate once."""

    def __init__(self, file: LogFile, chunk: Chunk, on_corrupt: OnCorrupt) -> None:
        self.records = Records(file, chunk, on_corrupt)
        self._file = file
        self.path = chunk.path
        self._limit = chunk.limit or chunk.end
        self._skip = on_corrupt == "skip"
        self._ahead = _NONE

    def __iter__(self) -> Iterator[Entry]:
        """Raises Corrupt."""
        for step in self.records.steps():
            for offset, payload in step:
                try:
                    one = _content(payload)
                except UnparsablePayload as error:
                    self.records.lose(offset, record.HEADER_BYTES + len(payload), error.message)
                else:
                    yield self._entry(offset, one)

    def _entry(self, offset: int, one: Content) -> Entry:
        if isinstance(one, RelayBatch):
            return Entry(offset, one, list(one.rows), one.after, one.commit_ts)
        if isinstance(one, RelayPiece):
            if self._ahead.offset <= offset:
                self._ahead = self._batch_behind(offset)
            ahead = self._ahead
            if ahead.pieces and ahead.pieces_at <= offset:
                return Entry(offset, one, list(one.rows), ahead.after, ahead.commit_ts)
        return Entry(offset, one)

    def _batch_behind(self, offset: int) -> Ahead:
        """The next batch in the file that is what was written; its end where there is none. Raises
        Corrupt."""
        while offset < self._limit:
            if self._skip and not is_whole(self._file, offset):
                offset = behind(self._file, offset, self._limit)
                continue
            head = self._file.read(offset, record.HEADER_BYTES + 1)
            found = record.parse_header(head)
            if found is None:
                raise corrupt(self.path, offset, "no record begins here")
            if head[record.HEADER_BYTES :] == _BATCH:
                one = self._ahead_at(offset, found.length)
                if isinstance(one, RelayBatch):
                    return Ahead(offset, one.pieces, one.pieces_at, one.after, one.commit_ts)
            offset += record.HEADER_BYTES + found.length
        return Ahead(self._limit)

    def _ahead_at(self, offset: int, length: int) -> Content | None:
        """None: it is none, and passed by where it is met. Raises Corrupt."""
        try:
            return _content(self._file.read(offset + record.HEADER_BYTES, length))
        except UnparsablePayload as error:
            if self._skip:
                return None
            raise corrupt(self.path, offset, error.message) from error


def _content(payload: Buffer) -> Content:
    """Raises UnparsablePayload."""
    one = parsed(payload)
    kind = one.WhichOneof("content")
    if kind == "batch":
        return one.batch
    if kind == "piece":
        return one.piece
    if kind == "header":
        return one.header
    raise UnparsablePayload("a relay record without content")
