"""A transaction as an application gets it; a large one's rows are read again from the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import groupby

import msgspec
from msgspec.structs import replace

from tidelog import changes, subjects
from tidelog.change_bodies import Joiner, ddl_of, joined, number_of, rows_of
from tidelog.changes import DdlMessage, MarkedTxn, RowMessage
from tidelog.errors import StreamMissing, Unavailable
from tidelog.ports import Bus, Message
from tidelog.skipped import Skipped
from tidelog.subscriber.assemblers import Batch
from tidelog.subscriber.errors import PartsLost, TooLarge
from tidelog.subscriber.positions import Position
from tidelog.subscriber.tables import Tables

PART_BYTES = 1 << 20
"""A part ends with the message that reaches it."""
FETCH_MESSAGES = 64
WAIT_S = 1.0
RETRY_S = 0.2


class Source(msgspec.Struct, frozen=True):
    """Where batches come from: what is needed to read one once more. `keep` is called while that
    goes on."""

    bus: Bus
    feed: str
    tables: Tables
    keep: Callable[[], Awaitable[None]]


class Transaction:
    """One transaction of the upstream, all of it that is in the wanted tables.

    `ddls` come before the rows. `tables`: rows in each table it changed, the unwanted ones too, by
    `db.table` as in subjects. `skipped`: it is no transaction, but the record of some that
    were committed upstream without binlogs: the feed lacks them.
    """

    def __init__(
        self, source: Source, batch: Batch, marked: MarkedTxn, ddls: list[DdlMessage]
    ) -> None:
        self.commit_ts = marked.commit_ts
        self.start_ts = marked.start_ts
        self.tables = marked.tables
        self.skipped = marked.skipped if isinstance(marked.skipped, Skipped) else None
        self.ddls = ddls
        self.large = batch.large
        self._source = source
        self._batch = batch
        self._rows: list[RowMessage] = []

    @property
    def position(self) -> Position:
        """Where to go on once this is done."""
        return Position(self._source.feed, self.commit_ts)

    @property
    def rows(self) -> list[RowMessage]:
        """By table, in commit order within a table. Raises TooLarge for a `large` one."""
        if self.large:
            raise TooLarge(
                f"transaction {self.commit_ts} has {sum(self.tables.values())} rows in "
                f"{self._batch.marker.messages} messages"
            )
        return self._rows

    async def parts(self) -> AsyncIterator[list[RowMessage]]:
        """The rows, about 1 MiB at a time; one part unless it is `large`. It is whole with the end
        of the iteration. Raises PartsLost, Purged, UnparsablePayload."""
        if not self.large:
            if self._rows:
                yield self._rows
            return
        part: list[RowMessage] = []
        size = 0
        async for message in _again(self._source, self._batch):
            if not _first_ts(message) <= self.commit_ts <= _last_ts(message):
                continue
            found = rows_of(message)
            events = [event for event in found.events if event.commit_ts == self.commit_ts]
            if not events:
                continue  # of transactions before it and behind it
            part.append(replace(found, events=events))
            size += len(message.data)
            if size >= PART_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part


def transactions(source: Source, batch: Batch) -> Iterator[Transaction]:
    """Those of a batch that the reader has not had and that concern it, in commit order."""
    rows: dict[int, list[RowMessage]] = {}
    ddls: dict[int, list[DdlMessage]] = {}
    is_ddl = f"changes.{batch.feed}.ddl."
    for message in joined(batch.messages):
        if message.subject.startswith(is_ddl):
            ddl = ddl_of(message)
            if source.tables.touched_by(ddl):
                ddls.setdefault(ddl.commit_ts, []).append(ddl)
            continue
        found = rows_of(message)
        for commit_ts, events in groupby(found.events, key=lambda event: event.commit_ts):
            rows.setdefault(commit_ts, []).append(replace(found, events=list(events)))
    for marked in batch.marker.txns:
        if batch.after is not None and marked.commit_ts <= batch.after:
            continue
        txn = Transaction(source, batch, marked, ddls.pop(marked.commit_ts, []))
        txn._rows = rows.pop(marked.commit_ts, [])
        wanted = batch.large and any(map(source.tables.take, marked.tables))
        if txn._rows or txn.ddls or txn.skipped is not None or wanted:
            yield txn


async def _again(source: Source, batch: Batch) -> AsyncIterator[Message]:
    """The wanted row messages of a batch, each whole, from the stream. Waits for an unreachable
    server."""
    row = f"changes.{batch.feed}.row."
    stream = subjects.changes_stream(batch.feed)
    joiner = Joiner()
    reader = None
    try:
        while True:
            try:
                if reader is None:
                    only = source.tables.subjects(batch.feed)
                    reader = await source.bus.read(stream, start_seq=batch.first, subjects=only)
                messages = await reader.next_batch(FETCH_MESSAGES, WAIT_S)
            except Unavailable:
                await asyncio.sleep(RETRY_S)
                continue
            for message in messages:
                if message.sequence == batch.sequence:
                    return
                if message.headers.get(changes.H_ATTEMPT) != batch.marker.attempt:
                    raise PartsLost(f"the stream is another at {message.sequence}")
                subject = message.subject
                if subject.startswith(row) and source.tables.take(subject[len(row) :]):
                    whole = joiner.whole(message)
                    if whole is not None:
                        yield whole
                        await source.keep()
    except StreamMissing as error:
        raise PartsLost(error.message) from error
    finally:
        if reader is not None:
            await reader.close()


def _first_ts(message: Message) -> int:
    return number_of(message, changes.H_FIRST_TS)


def _last_ts(message: Message) -> int:
    return number_of(message, changes.H_LAST_TS)
