"""A feed's stream after a commit_ts, over restarts of the server and refills of the stream.

A position is a commit_ts, never a sequence number: a stream that was deleted, or lost its tail, is
filled again by the Drainer under other sequences, and what was read before is skipped. What the
messages mean to the reader is its assembler's.
"""

from __future__ import annotations

import asyncio
from typing import Generic, Protocol, TypeVar

from tidelog import changes, subjects
from tidelog.change_bodies import number_of, prev_of
from tidelog.errors import Purged, StreamMissing, TidelogError, Unavailable
from tidelog.failpoints import hit
from tidelog.ports import Bus, Message, StreamReader

FETCH_MESSAGES = 500
MISSING_S = 0.2
"""How long to wait before a missing stream is looked for again, and for a mark while its place is
searched: one that comes too late on a slow way costs a longer search."""
PATIENT_S = 2.0
"""Where a mark is needed."""

T = TypeVar("T")


class Gap(TidelogError):
    """The stream goes on after something this reader never got: prev_commit_ts > its position."""

    default_hint = "begin again from a copy of the source, at its commit_ts"

    def __init__(self, position: int, prev_commit_ts: int) -> None:
        super().__init__(f"changes after {position} up to {prev_commit_ts} are not in the stream")
        self.position = position
        self.prev_commit_ts = prev_commit_ts


def comes_next(position: int | None, commit_ts: int, prev_commit_ts: int) -> bool:
    """The three cases of I5 for a marker or watermark: False = it was read before. Raises Gap."""
    if position is None:
        return True
    if commit_ts <= position:
        return False
    if prev_commit_ts > position:
        raise Gap(position, prev_commit_ts)
    return True


def marks_of(feed: str) -> tuple[str, str]:
    """The subjects of its markers and watermarks."""
    return subjects.changes_txn(feed), subjects.changes_watermark(feed)


async def newest_mark(bus: Bus, feed: str) -> int | None:
    """Up to where the feed's stream goes now; None = it holds no mark yet. Raises StreamMissing,
    Unavailable, UnparsablePayload."""
    stream = subjects.changes_stream(feed)
    found = [await bus.last_message(stream, subject) for subject in marks_of(feed)]
    return max((commit_ts_of(mark) for mark in found if mark is not None), default=None)


class Assembler(Protocol[T]):
    """Pure: messages in stream order -> what the reader returns."""

    @property
    def position(self) -> int | None:
        """Everything with commit_ts <= this was returned; None = nothing was met yet."""

    @property
    def skipped(self) -> int:
        """Batches and watermarks at or below the position, met again after a refill."""

    def restart(self, sequence: int = 0) -> None:
        """Reading begins anew at this sequence: forget the incomplete batch."""

    def feed(self, messages: list[Message]) -> list[T]:
        """Take the next messages; returns what became complete. Raises Gap, UnparsablePayload."""


class FeedReader(Generic[T]):
    """`only`: the subjects to read, markers and watermarks among them; none = all."""

    def __init__(
        self, bus: Bus, feed: str, assembler: Assembler[T], only: tuple[str, ...] = ()
    ) -> None:
        self.stream = subjects.changes_stream(feed)
        self._bus = bus
        self._only = only
        self._marks = marks_of(feed)
        self._assembler = assembler
        self._reader: StreamReader | None = None
        self._error: TidelogError | None = None
        self._returned = False
        self._ahead = 0
        """How many messages to leave out where the stream begins, which are discarded before they
        can be read."""
        self.reopened = 0

    @property
    def position(self) -> int | None:
        """Everything with commit_ts <= this was returned."""
        return self._assembler.position

    @property
    def skipped(self) -> int:
        """Batches met a second time."""
        return self._assembler.skipped

    async def next(self, max_wait_s: float = 1.0) -> list[T]:
        """What is complete now, in order; empty after `max_wait_s` without any.

        A missing, shorter or unreachable stream is waited for. Raises Gap, Purged,
        UnparsablePayload.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error
        deadline = asyncio.get_running_loop().time() + max_wait_s
        while True:
            left = deadline - asyncio.get_running_loop().time()
            try:
                if self._reader is None:
                    self._reader = await self._open()
                messages = await self._reader.next_batch(FETCH_MESSAGES, max(0.0, left))
                found = self._take(messages)
            except Purged:
                # Wherever a full stream begins, it does so no longer when the reader is there.
                if self.position is not None or self._returned:
                    raise
                await self.close()
                self._ahead = 2 * self._ahead + 1
                if left <= 0:
                    return []
                continue
            except (StreamMissing, Unavailable):
                await self.close()
                self.reopened += 1
                self._ahead = 0
                if left <= MISSING_S:
                    await asyncio.sleep(max(0.0, left))
                    return []
                await asyncio.sleep(MISSING_S)
                continue
            if found:
                self._returned, self._ahead = True, 0
            if found or not messages or left <= 0:
                return found

    def _take(self, messages: list[Message]) -> list[T]:
        """What stands in front of an error is returned first, as the position is behind it."""
        found: list[T] = []
        for message in messages:
            try:
                found += self._assembler.feed([message])
            except TidelogError as error:
                if not found:
                    raise
                self._error = error
                break
        return found

    async def _open(self) -> StreamReader:
        hit("reader.feed.before_opening")
        state = await self._bus.stream_state(self.stream)
        if state is None:
            raise StreamMissing(f"stream {self.stream} does not exist")
        start = await self._seek(max(1, state.first_seq), state.last_seq + 1)
        self._assembler.restart(start)
        return await self._bus.read(self.stream, start_seq=start, subjects=self._only)

    async def _seek(self, low: int, high: int) -> int:
        """The sequence after the last marker at or below the position, by bisection.

        Markers and watermarks ascend in commit_ts along the stream, so it takes about log2(n)
        reads of one message, not a read of everything kept. The first mark above the position has
        to follow it: rows are returned before their mark is met, and nothing else would tell that
        what was missed lies in front of them. Raises Gap, and StreamMissing: no mark is there yet.
        """
        position = self.position
        if position is None:
            return min(low + self._ahead, max(low, high - 1))
        start, known = low, False
        following: Message | None = None
        while low < high:
            middle = (low + high) // 2
            mark = await self._first_mark(middle)
            if mark is not None and commit_ts_of(mark) <= position:
                start = low = mark.sequence + 1
                known = True
            else:
                high, following = middle, mark
        if following is None and not known:
            following = await self._first_mark(start, PATIENT_S)
        if following is not None:
            comes_next(position, commit_ts_of(following), prev_of(following))
        elif not known:
            raise StreamMissing(f"stream {self.stream} has no mark yet")
        return start

    async def _first_mark(self, sequence: int, max_wait_s: float = MISSING_S) -> Message | None:
        reader = await self._bus.read(self.stream, start_seq=sequence, subjects=self._marks)
        try:
            found = await reader.next_batch(1, max_wait_s)
        finally:
            await reader.close()
        return found[0] if found else None

    async def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.close()


def commit_ts_of(mark: Message) -> int:
    """Of a marker or watermark: everything at or below it is in the stream before it. Raises
    UnparsablePayload."""
    return number_of(mark, changes.H_LAST_TS)
