"""A feed's messages in stream order -> what the relay takes (design section 5). Pure.

Bodies stay bytes. A batch is held until its marker has come; one that becomes larger than
`spill_bytes` before is passed on in pieces from then on, so that memory doesn't grow with it.
"""

from __future__ import annotations

import msgspec

from tidelog import changes, subjects
from tidelog.change_bodies import (
    Joiner,
    ddl_of,
    head_of,
    marker_of,
    number_of,
    watermark_of,
)
from tidelog.changes import Marker
from tidelog.errors import UnparsablePayload
from tidelog.feed_reader import Gap, comes_next
from tidelog.ports import Message
from tidelog.relay import Incoming, Piece, TableKey, Whole

SPILL_BYTES = 8 << 20
"""Of an unfinished batch's rows in memory; above the Drainer's usual batch."""
PIECE_BYTES = 1 << 20


class Moved(msgspec.Struct, frozen=True):
    """Nothing with commit_ts <= `commit_ts` comes any more: a position without changes."""

    commit_ts: int


Item = Incoming | Moved


class BatchAssembler:
    """An Assembler of tidelog.feed_reader."""

    def __init__(
        self,
        feed: str,
        position: int,
        *,
        spill_bytes: int = SPILL_BYTES,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self.position: int = position
        self.skipped = 0
        self._spill_bytes = spill_bytes
        self._piece_bytes = piece_bytes
        self._txn = subjects.changes_txn(feed)
        self._watermark = subjects.changes_watermark(feed)
        self._ddl = f"changes.{feed}.ddl."
        self._row = f"changes.{feed}.row."
        self._begin("")

    def restart(self, sequence: int = 0) -> None:
        """Reading begins anew at another sequence: forget the incomplete batch."""
        self._begin("")

    def feed(self, messages: list[Message]) -> list[Item]:
        """Take the next messages; returns what became complete, or too large to wait.

        Raises Gap, or UnparsablePayload for a body that is none of ours.
        """
        out: list[Item] = []
        for message in messages:
            if message.subject == self._txn:
                out += self._close(message)
            elif message.subject == self._watermark:
                out += self._move(message)
            else:
                out += self._add(message)
        return out

    def _begin(self, attempt: str) -> None:
        self._attempt = attempt
        self._joiner = Joiner()
        self._count = 0
        self._whole = True
        self._rows: list[bytes] = []
        self._ddls: list[bytes] = []
        self._tables: set[TableKey] = set()
        self._bytes = 0
        self._pieces = 0

    def _add(self, message: Message) -> list[Item]:
        attempt = message.headers.get(changes.H_ATTEMPT, "")
        if attempt != self._attempt:
            self._begin(attempt)
        if message.headers.get(changes.H_INDEX) != str(self._count):
            self._whole = False
        self._count += 1
        if not self._whole:
            return []
        whole = self._joiner.whole(message)
        if whole is not None:
            self._keep(whole)
        limit = self._piece_bytes if self._pieces else self._spill_bytes
        return self._spilled() if self._bytes > limit else []

    def _keep(self, message: Message) -> None:
        if message.subject.startswith(self._ddl):
            ddl_of(message)
            self._ddls.append(message.data)
        elif not message.subject.startswith(self._row):
            raise UnparsablePayload(f"subject {message.subject} is not of this feed")
        elif not self._was_read(message):
            head = head_of(message)
            self._rows.append(message.data)
            self._tables.add((head.db, head.table, head.schema_version))
            self._bytes += len(message.data)

    def _was_read(self, message: Message) -> bool:
        """Before the stream was filled again."""
        stamped = changes.H_LAST_TS in message.headers
        return stamped and number_of(message, changes.H_LAST_TS) <= self.position

    def _spilled(self) -> list[Item]:
        """All rows in hand, as pieces."""
        found: list[Item] = []
        rows: list[bytes] = []
        size = 0
        for number, row in enumerate(self._rows, 1):
            rows.append(row)
            size += len(row)
            if size >= self._piece_bytes or number == len(self._rows):
                tables = frozenset(self._tables)
                found.append(Piece(self._attempt, self._pieces, rows, tables))
                self._pieces += 1
                rows, size = [], 0
        self._rows, self._bytes = [], 0
        self._tables = set()
        return found

    def _move(self, message: Message) -> list[Item]:
        mark = watermark_of(message)
        if not self._next(mark.resolved_ts, mark.prev_commit_ts):
            return []
        self.position = mark.resolved_ts
        return [Moved(mark.resolved_ts)]

    def _next(self, commit_ts: int, prev_commit_ts: int) -> bool:
        following = comes_next(self.position, commit_ts, prev_commit_ts)
        self.skipped += not following
        return following

    def _close(self, message: Message) -> list[Item]:
        marker = marker_of(message)
        if self._attempt != marker.attempt or not marker.messages:
            self._begin(marker.attempt)  # what came before it is of an attempt that was given up
        last = marker.txns[-1].commit_ts
        found: list[Item] = []
        if self._next(last, marker.prev_commit_ts):
            if marker.messages != self._count or not self._whole:
                raise Gap(self.position, last)
            found = self._complete(marker, message.data)
            self.position = last
        self._begin("")
        return found

    def _complete(self, marker: Marker, body: bytes) -> list[Item]:
        rest = self._spilled() if self._pieces else []
        whole = Whole(
            marker.attempt,
            marker.txns[-1].commit_ts,
            self.position,
            body,
            marker.txns,
            self._rows,
            self._ddls,
            frozenset(self._tables),
            self._pieces,
        )
        return [*rest, whole]
