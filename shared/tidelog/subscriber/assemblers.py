"""What the server sends of a feed -> whole batches, or rows as they come. Pure.

Of a filtered feed most messages are not sent, so a batch is known to be whole by two facts: its
messages stand right before its marker, in a part of the stream that was read (`marker.messages`),
and there are as many rows of each wanted table as the marker says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec

from tidelog import changes, subjects
from tidelog.change_bodies import (
    Joiner,
    ddl_of,
    marker_of,
    number_of,
    rows_in,
    rows_of,
    watermark_of,
)
from tidelog.changes import DdlMessage, Marker, RowMessage
from tidelog.errors import UnparsablePayload
from tidelog.feed_reader import Gap, comes_next
from tidelog.ports import Message
from tidelog.skipped import Skipped
from tidelog.subscriber.tables import Tables

MESSAGE_COST = 400
"""A message's subject, headers and objects, beside its body; roughly."""


class Batch(msgspec.Struct, frozen=True):
    """Transactions that became complete with one marker. `messages` are the wanted ones, of a
    `large` one the DDLs only. `first` and `sequence`: where the batch begins, where its marker is.
    What is not above `after` was read before. `feed`: whose stream holds it, a replay's perhaps."""

    feed: str
    marker: Marker
    messages: list[Message]
    large: bool
    first: int
    sequence: int
    after: int | None


class Reached(msgspec.Struct, frozen=True):
    """Everything at or below it was returned."""

    commit_ts: int


RowItem = RowMessage | DdlMessage | Skipped
Item = TypeVar("Item")


class _Marks(ABC, Generic[Item]):
    """What both have in common: the loop, the position, and whether a batch was read from its
    beginning."""

    def __init__(self, feed: str, position: int | None, tables: Tables) -> None:
        self.position = position
        self.skipped = 0
        self._tables = tables
        self._txn = subjects.changes_txn(feed)
        self._watermark = subjects.changes_watermark(feed)
        self._ddl = f"changes.{feed}.ddl."
        self._row = f"changes.{feed}.row."
        self._start = 0

    def restart(self, sequence: int = 0) -> None:
        """Reading begins anew at another sequence: forget the incomplete batch."""
        self._start = sequence
        self._begin("")

    def feed(self, messages: list[Message]) -> list[Item | Reached]:
        """Take the next messages; returns what became complete. Raises Gap, UnparsablePayload."""
        out: list[Item | Reached] = []
        for message in messages:
            if message.subject == self._txn:
                out += self._close(message)
            elif message.subject == self._watermark:
                out += self._watermark_reached(message)
            elif self._wants(message):
                out += self._take(message)
        return out

    @abstractmethod
    def _begin(self, attempt: str) -> None:
        """Messages of another attempt come: those of the one before it are of no use."""

    @abstractmethod
    def _take(self, message: Message) -> Sequence[Item]:
        """A row message or a DDL that is wanted."""

    @abstractmethod
    def _close(self, message: Message) -> list[Item | Reached]:
        """A marker."""

    def _watermark_reached(self, message: Message) -> list[Reached]:
        mark = watermark_of(message)
        following = comes_next(self.position, mark.resolved_ts, mark.prev_commit_ts)
        self.skipped += not following
        if not following:
            return []
        self.position = mark.resolved_ts
        return [Reached(mark.resolved_ts)]

    def _comes_next(self, marker: Marker) -> bool:
        """Raises Gap."""
        following = comes_next(self.position, marker.txns[-1].commit_ts, marker.prev_commit_ts)
        self.skipped += not following
        return following

    def _is_cut(self, marker: Marker, sequence: int) -> bool:
        """Whether the stream's retention begins within the marker's batch. Raises Gap, unless the
        reader begins wherever the stream does."""
        if sequence - marker.messages >= self._start:
            return False
        if self.position is not None:
            raise Gap(self.position, marker.txns[-1].commit_ts)
        return True

    def _wants(self, message: Message) -> bool:
        subject = message.subject
        if subject.startswith(self._row):
            return self._tables.take(subject[len(self._row) :])
        if subject.startswith(self._ddl):
            return True
        raise UnparsablePayload(f"subject {subject} is not of this feed")


class BatchAssembler(_Marks[Batch]):
    """Whole batches. Of one transaction that is above `buffer_bytes` the rows are counted and not
    kept; several together are never more than the Drainer's batch."""

    def __init__(self, feed: str, position: int | None, tables: Tables, buffer_bytes: int) -> None:
        super().__init__(feed, position, tables)
        self._feed = feed
        self._limit = buffer_bytes
        self._begin("")

    def _begin(self, attempt: str) -> None:
        self._attempt = attempt
        self._messages: list[Message] = []
        self._bytes = self._rows = 0
        self._large = self._several = False
        self._ts = ""

    def _take(self, message: Message) -> Sequence[Batch]:
        attempt = message.headers.get(changes.H_ATTEMPT, "")
        if attempt != self._attempt:
            self._begin(attempt)
        is_ddl = message.subject.startswith(self._ddl)
        if not is_ddl:
            self._rows += rows_in(message)
            first, last = (
                message.headers.get(h, "") for h in (changes.H_FIRST_TS, changes.H_LAST_TS)
            )
            self._several = self._several or first != last or self._ts not in ("", last)
            self._ts = last
        if is_ddl or not self._large:
            self._messages.append(message)
            self._bytes += len(message.data) + MESSAGE_COST
        if not self._large and not self._several and self._bytes > self._limit:
            self._large = True
            self._messages = [one for one in self._messages if one.subject.startswith(self._ddl)]
        return ()

    def _close(self, message: Message) -> list[Batch | Reached]:
        marker = marker_of(message)
        if self._attempt != marker.attempt:
            self._begin("")  # of this attempt nothing was wanted
        kept, large, rows = self._messages, self._large, self._rows
        self._begin("")
        if not self._comes_next(marker):
            return []
        after, last = self.position, marker.txns[-1].commit_ts
        if self._is_cut(marker, message.sequence):
            self.position = last
            return [Reached(last)]
        if rows != self._marked_rows(marker):
            raise Gap(marker.prev_commit_ts if after is None else after, last)
        self.position = last
        first = message.sequence - marker.messages
        return [Batch(self._feed, marker, kept, large, first, message.sequence, after)]

    def _marked_rows(self, marker: Marker) -> int:
        return sum(
            rows
            for txn in marker.txns
            for label, rows in txn.tables.items()
            if self._tables.take(label)
        )


class RowAssembler(_Marks[RowItem]):
    """Rows and DDLs before their marker has come: those of an attempt that was given up come again
    with the next one. What was skipped upstream is told too."""

    def __init__(self, feed: str, position: int | None, tables: Tables) -> None:
        super().__init__(feed, position, tables)
        self._begin("")

    def _begin(self, attempt: str) -> None:
        self._attempt = attempt
        self._joiner = Joiner()

    def _take(self, message: Message) -> list[RowItem]:
        attempt = message.headers.get(changes.H_ATTEMPT, "")
        if attempt != self._attempt:
            self._begin(attempt)
        after = -1 if self.position is None else self.position
        if number_of(message, changes.H_LAST_TS) <= after:
            return []  # read before the stream was filled again
        if message.sequence - number_of(message, changes.H_INDEX) < self._start:
            return []  # the batch began before the stream does now: its marker will tell
        whole = self._joiner.whole(message)
        if whole is None:
            return []
        if whole.subject.startswith(self._ddl):
            ddl = ddl_of(whole)
            return [ddl] if self._tables.touched_by(ddl) else []
        return [above(rows_of(whole), after)]

    def _close(self, message: Message) -> list[RowItem | Reached]:
        marker = marker_of(message)
        self._begin("")
        after = -1 if self.position is None else self.position
        if not self._comes_next(marker):
            return []
        self._is_cut(marker, message.sequence)
        self.position = marker.txns[-1].commit_ts
        told: list[RowItem | Reached] = [
            txn.skipped
            for txn in marker.txns
            if isinstance(txn.skipped, Skipped) and txn.commit_ts > after
        ]
        return [*told, Reached(self.position)]


def above(rows: RowMessage, after: int) -> RowMessage:
    """Its events with a later commit_ts; a refilled batch may be cut elsewhere."""
    if rows.events and rows.events[0].commit_ts > after:
        return rows
    kept = [event for event in rows.events if event.commit_ts > after]
    return msgspec.structs.replace(rows, events=kept)
