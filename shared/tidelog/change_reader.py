"""Reading a feed's change stream: whole batches, in commit order, each transaction once (I5).

    reader = ChangeReader(bus, "shop", after_commit_ts=checkpoint)
    while True:
        for change in await reader.next():
            apply(change.ddls, change.rows)
            checkpoint = change.commit_ts

A position is a commit_ts, never a sequence number: a stream that was deleted, or lost its tail, is
filled again by the Drainer under other sequences, and what was read before is skipped.
"""

from __future__ import annotations

import msgspec

from tidelog import changes, subjects
from tidelog.change_bodies import ddl_of, joined, marker_of, rows_of, watermark_of
from tidelog.changes import DdlMessage, MarkedTxn, Marker, RowMessage
from tidelog.errors import UnparsablePayload
from tidelog.feed_reader import FeedReader, Gap, comes_next
from tidelog.ports import Bus, Message

__all__ = ["Change", "ChangeAssembler", "ChangeReader", "Gap"]


class Change(msgspec.Struct, frozen=True):
    """One complete batch, or a watermark (then `txns` is empty).

    After it everything with commit_ts <= `commit_ts` has been seen: save that as the position.
    `rows` hold the events of `txns` by table, in commit order within a table. `ddls` come before
    `rows`: a DDL is alone in its batch, unless it is early: then rows of one transaction need it,
    and it comes with them.
    """

    commit_ts: int
    txns: list[MarkedTxn] = []
    rows: list[RowMessage] = []
    ddls: list[DdlMessage] = []
    sequence: int = 0
    """Of the marker or watermark; for display only."""


class ChangeAssembler:
    """Pure: messages in stream order -> changes. `position` None = wherever the stream starts."""

    def __init__(self, feed: str, position: int | None) -> None:
        self.position = position
        self.skipped = 0
        """Batches and watermarks at or below the position, met again after a refill."""
        self._txn = subjects.changes_txn(feed)
        self._watermark = subjects.changes_watermark(feed)
        self._ddl = f"changes.{feed}.ddl."
        self._row = f"changes.{feed}.row."
        self._attempt = ""
        self._buffer: list[Message] = []
        self._whole = True

    def restart(self, sequence: int = 0) -> None:
        """Reading begins anew at another sequence: forget the incomplete batch."""
        self._begin("")

    def feed(self, messages: list[Message]) -> list[Change]:
        """Take the next messages; returns what became complete.

        Raises Gap, or UnparsablePayload for a body that is none of ours.
        """
        out: list[Change] = []
        for message in messages:
            if message.subject == self._txn:
                change = self._close(message)
            elif message.subject == self._watermark:
                change = self._move(message)
            else:
                self._add(message)
                continue
            if change is not None:
                out.append(change)
        return out

    def _begin(self, attempt: str) -> None:
        self._attempt = attempt
        self._buffer = []
        self._whole = True

    def _add(self, message: Message) -> None:
        attempt = message.headers.get(changes.H_ATTEMPT, "")
        if attempt != self._attempt:
            self._begin(attempt)
        if message.headers.get(changes.H_INDEX) != str(len(self._buffer)):
            self._whole = False
        if self._whole:
            self._buffer.append(message)

    def _next(self, commit_ts: int, prev_commit_ts: int) -> bool:
        following = comes_next(self.position, commit_ts, prev_commit_ts)
        self.skipped += not following
        return following

    def _move(self, message: Message) -> Change | None:
        mark = watermark_of(message)
        if not self._next(mark.resolved_ts, mark.prev_commit_ts):
            return None
        self.position = mark.resolved_ts
        return Change(mark.resolved_ts, sequence=message.sequence)

    def _close(self, message: Message) -> Change | None:
        marker = marker_of(message)
        buffer, whole = self._buffer, self._whole and self._attempt == marker.attempt
        if not marker.messages:  # a record of what was skipped, alone: nothing came before it
            buffer, whole = [], True
        self._begin("")
        last = marker.txns[-1].commit_ts
        if not self._next(last, marker.prev_commit_ts):
            return None
        if marker.messages != len(buffer) or not whole:
            if self.position is not None:
                raise Gap(self.position, last)
            self.position = last  # the stream's retention begins within this batch
            return None
        after, self.position = self.position, last
        change = self._build(marker, buffer, message.sequence)
        if after is None or after < marker.txns[0].commit_ts:
            return change
        return _newer(change, after)

    def _build(self, marker: Marker, buffer: list[Message], sequence: int) -> Change:
        rows: list[RowMessage] = []
        ddls: list[DdlMessage] = []
        for message in joined(buffer):
            if message.subject.startswith(self._ddl):
                ddls.append(ddl_of(message))
            elif message.subject.startswith(self._row):
                rows.append(rows_of(message))
            else:
                raise UnparsablePayload(f"subject {message.subject} is not of this feed")
        return Change(marker.txns[-1].commit_ts, marker.txns, rows, ddls, sequence)


def _newer(change: Change, after: int) -> Change:
    """A refilled batch may be cut elsewhere: keep what lies above the position."""
    rows = [
        msgspec.structs.replace(rows, events=kept)
        for rows in change.rows
        if (kept := [event for event in rows.events if event.commit_ts > after])
    ]
    txns = [txn for txn in change.txns if txn.commit_ts > after]
    return msgspec.structs.replace(change, txns=txns, rows=rows)


class ChangeReader(FeedReader[Change]):
    """A feed's changes after a commit_ts, over restarts of the server and refills of the stream.

    `after_commit_ts` None = wherever the stream starts now.
    """

    def __init__(self, bus: Bus, feed: str, after_commit_ts: int | None) -> None:
        super().__init__(bus, feed, ChangeAssembler(feed, after_commit_ts))
