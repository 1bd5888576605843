"""Where a subscription begins, as an application says it -> a commit_ts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from datetime import datetime

from tidelog.change_bodies import prev_of
from tidelog.errors import BadInput, StreamMissing, Unavailable
from tidelog.feed_reader import FeedReader, marks_of, newest_mark
from tidelog.ports import Bus, Message
from tidelog.subscriber.positions import Position
from tidelog.timestamps import TS_MAX, compose

RETRY_S = 0.2

Start = Position | int | datetime | str
"""A position or commit_ts (what follows it), a time (what was committed at it or later), "now", or
"beginning" (all that the stream keeps)."""


async def begin(bus: Bus, feed: str, start: Start, timeout_s: float | None) -> int | None:
    """Everything after it is wanted; None = wherever the stream starts. Waits for the stream.

    Raises BadInput, and StreamMissing if there is none in time.
    """
    said = _said(feed, start)
    with _in_time(feed):
        async with asyncio.timeout(timeout_s):
            newest = await _newest(bus, feed)
    if isinstance(said, int):
        return said
    return newest if said == "now" else None


async def kept_after(bus: Bus, feed: str, timeout_s: float | None) -> int:
    """All that the feed's stream keeps was committed later: who begins at its beginning needs
    nothing of what was before. Raises StreamMissing if there is none in time."""
    reader = FeedReader(bus, feed, _Marks(), marks_of(feed))
    try:
        with _in_time(feed):
            async with asyncio.timeout(timeout_s):
                while not (found := await reader.next()):
                    pass
    finally:
        await reader.close()
    return found[0]


class _Marks:
    """What each marker and watermark follows."""

    position = None
    skipped = 0

    def restart(self, sequence: int = 0) -> None: ...

    def feed(self, messages: list[Message]) -> list[int]:
        return [prev_of(message) for message in messages]


@contextlib.contextmanager
def _in_time(feed: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise StreamMissing(
            f"feed {feed!r} has no stream",
            hint="is the feed's name right? Its Drainer makes the stream: see `tidelog status`",
        ) from None


def _said(feed: str, start: Start) -> int | str:
    said: object
    match start:
        case Position():
            if start.feed != feed:
                raise BadInput(f"{start.encode()} is a position of another feed than {feed!r}")
            said = start.commit_ts
        case datetime():
            if start.tzinfo is None:
                raise BadInput("start is a time without a zone", hint="datetime(…, tzinfo=UTC)")
            said = max(0, compose(int(start.timestamp() * 1000)) - 1)
        case _:
            said = start
    match said:
        case int() if 0 <= said <= TS_MAX:
            return said
        case "now" | "beginning":
            return said
        case _:
            hint = 'a Position, a commit_ts, a datetime, "now" or "beginning"'
            raise BadInput(f"start {start!r}", hint=hint)


async def _newest(bus: Bus, feed: str) -> int:
    """The last marker or watermark. A Drainer begins with a mark, which is waited for."""
    while True:
        with contextlib.suppress(StreamMissing, Unavailable):
            newest = await newest_mark(bus, feed)
            if newest is not None:
                return newest
        await asyncio.sleep(RETRY_S)
