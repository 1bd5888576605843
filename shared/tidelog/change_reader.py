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

import asyncio
from typing import TypeVar

import msgspec

from tidelog import changes, subjects
from tidelog.changes import DdlMessage, MarkedTxn, Marker, RowMessage, Watermark
from tidelog.errors import StreamMissing, TidelogError, Unavailable, UnparsablePayload
from tidelog.ports import Bus, Message, StreamReader

FETCH_MESSAGES = 500
MISSING_S = 0.2
"""How long to wait before a missing stream is looked for again."""


class Gap(TidelogError):
    """The stream goes on after something this reader never got: prev_commit_ts > its position."""

    default_hint = "begin again from a copy of the source, at its commit_ts"

    def __init__(self, position: int, prev_commit_ts: int) -> None:
        super().__init__(f"changes after {position} up to {prev_commit_ts} are not in the stream")
        self.position = position
        self.prev_commit_ts = prev_commit_ts


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

    def restart(self) -> None:
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
        """The three cases of I5."""
        if self.position is None:
            return True
        if commit_ts <= self.position:
            self.skipped += 1
            return False
        if prev_commit_ts > self.position:
            raise Gap(self.position, prev_commit_ts)
        return True

    def _move(self, message: Message) -> Change | None:
        mark = _decode(_WATERMARK, message)
        if not self._next(mark.resolved_ts, mark.prev_commit_ts):
            return None
        self.position = mark.resolved_ts
        return Change(mark.resolved_ts, sequence=message.sequence)

    def _close(self, message: Message) -> Change | None:
        marker = _decode(_MARKER, message)
        buffer, whole = self._buffer, self._whole and self._attempt == marker.attempt
        if not marker.messages:  # a record of what was skipped, alone: nothing came before it
            buffer, whole = [], True
        self._begin("")
        if not marker.txns:
            raise UnparsablePayload(f"marker {message.sequence} has no transactions")
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
        pieces: list[bytes] = []
        for message in buffer:
            is_ddl = message.subject.startswith(self._ddl)
            if not is_ddl and not message.subject.startswith(self._row):
                raise UnparsablePayload(f"subject {message.subject} is not of this feed")
            fragment = message.headers.get(changes.H_FRAGMENT)
            if fragment is not None:
                pieces.append(message.data)
                index, _, count = fragment.partition("/")
                if int(index) + 1 < int(count):
                    continue
                message = msgspec.structs.replace(message, data=b"".join(pieces))
                pieces = []
            if is_ddl:
                ddls.append(_decode(_DDL, message))
            else:
                rows.append(_decode(_ROWS, message))
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


S = TypeVar("S")
_ROWS = msgspec.json.Decoder(RowMessage)
_DDL = msgspec.json.Decoder(DdlMessage)
_MARKER = msgspec.json.Decoder(Marker)
_WATERMARK = msgspec.json.Decoder(Watermark)


def _decode(decoder: msgspec.json.Decoder[S], message: Message) -> S:
    try:
        return decoder.decode(message.data)
    except msgspec.DecodeError as error:
        raise UnparsablePayload(f"{message.subject} at {message.sequence}: {error}") from error


class ChangeReader:
    """A feed's changes after a commit_ts, over restarts of the server and refills of the stream.

    `after_commit_ts` None = wherever the stream starts now.
    """

    def __init__(self, bus: Bus, feed: str, after_commit_ts: int | None) -> None:
        self.stream = subjects.changes_stream(feed)
        self._bus = bus
        self._marks = (subjects.changes_txn(feed), subjects.changes_watermark(feed))
        self._assembler = ChangeAssembler(feed, after_commit_ts)
        self._reader: StreamReader | None = None
        self.reopened = 0

    @property
    def position(self) -> int | None:
        """Everything with commit_ts <= this was returned."""
        return self._assembler.position

    @property
    def skipped(self) -> int:
        """Batches met a second time."""
        return self._assembler.skipped

    async def next(self, max_wait_s: float = 1.0) -> list[Change]:
        """What is complete now, in order; empty after `max_wait_s` without any.

        A missing, shorter or unreachable stream is waited for. Raises Gap, Purged,
        UnparsablePayload.
        """
        deadline = asyncio.get_running_loop().time() + max_wait_s
        while True:
            left = deadline - asyncio.get_running_loop().time()
            try:
                if self._reader is None:
                    self._reader = await self._open()
                messages = await self._reader.next_batch(FETCH_MESSAGES, max(0.0, left))
                found = self._assembler.feed(messages)
            except (StreamMissing, Unavailable):
                await self.close()
                self.reopened += 1
                if left <= MISSING_S:
                    await asyncio.sleep(max(0.0, left))
                    return []
                await asyncio.sleep(MISSING_S)
                continue
            if found or not messages or left <= 0:
                return found

    async def _open(self) -> StreamReader:
        state = await self._bus.stream_state(self.stream)
        if state is None:
            raise StreamMissing(f"stream {self.stream} does not exist")
        self._assembler.restart()
        start = await self._seek(max(1, state.first_seq), state.last_seq + 1)
        return await self._bus.read(self.stream, start_seq=start)

    async def _seek(self, low: int, high: int) -> int:
        """The sequence after the last marker at or below the position, by bisection.

        Markers and watermarks ascend in commit_ts along the stream, so it takes about log2(n)
        reads of one message, not a read of everything kept.
        """
        position = self.position
        if position is None:
            return low
        start = low
        while low < high:
            middle = (low + high) // 2
            mark = await self._first_mark(middle)
            if mark is not None and _commit_ts(mark) <= position:
                start = mark.sequence + 1
                low = start
            else:
                high = middle
        return start

    async def _first_mark(self, sequence: int) -> Message | None:
        reader = await self._bus.read(self.stream, start_seq=sequence, subjects=self._marks)
        try:
            found = await reader.next_batch(1, MISSING_S)
        finally:
            await reader.close()
        return found[0] if found else None

    async def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()


def _commit_ts(mark: Message) -> int:
    return int(mark.headers.get(changes.H_LAST_TS, "0"))
