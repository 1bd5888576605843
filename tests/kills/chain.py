"""I5 of a feed's stream, message by message: without what a reader forgives, a rig must not miss a
gap that a reader hides. Pure, but for `follow`."""

from __future__ import annotations

import asyncio

import msgspec

from tests.wrong import Wrong
from tidelog import subjects
from tidelog.changes import Marker, Watermark
from tidelog.errors import Purged, StreamMissing, Unavailable
from tidelog.ports import Bus, Message, StreamReader

OPEN_S = 0.1
"""Between two looks for a stream that is not there yet."""


class Again(Wrong):
    """A transaction that is in the stream already, or should have come before one that is."""


class Chain:
    """From the stream's first message on, or from `anywhere`: from what the first one links to."""

    def __init__(self, feed: str, *, anywhere: bool = False) -> None:
        self.marked = 0
        """The last commit_ts of the last marker."""
        self.abandoned = 0
        """Attempts whose marker never came: who wrote it died between the parts."""
        self._feed = feed
        self._txn = subjects.changes_txn(feed)
        self._watermark = subjects.changes_watermark(feed)
        self._attempt = ""
        self._sequence = 0
        self._begun = not anywhere
        self._anywhere = anywhere

    def take(self, message: Message) -> None:
        """The next one. Raises Wrong."""
        if message.sequence != self._sequence + 1 and (self._begun or self._sequence):
            raise Wrong(f"message {message.sequence} follows {self._sequence}")
        self._sequence = message.sequence
        self.link(message)

    def link(self, message: Message) -> None:
        """The next one of a stream in which later messages take earlier ones' place. Raises
        Wrong."""
        if message.subject == self._watermark:
            mark = msgspec.json.decode(message.data, type=Watermark)
            self._begin(mark.prev_commit_ts)
            if mark.resolved_ts < self.marked:
                raise Wrong(f"watermark {mark.resolved_ts} below the marker of {self.marked}")
            self._follows(mark.prev_commit_ts, self.marked)
        elif message.subject == self._txn:
            self._attempt = ""
            self.mark(msgspec.json.decode(message.data, type=Marker))
        else:
            attempt = message.headers["Tidelog-Attempt"]
            self.abandoned += bool(self._attempt) and attempt != self._attempt
            self._attempt = attempt

    def mark(self, marker: Marker) -> list[int]:
        """The next one; its transactions' commit_ts. Raises Wrong."""
        self._begin(marker.prev_commit_ts)
        times = [txn.commit_ts for txn in marker.txns]
        if [self.marked, *times] != sorted({self.marked, *times}):
            raise Again(f"{times} is out of order, or published twice: {self.marked} was")
        self._follows(marker.prev_commit_ts, times[-1])
        return times

    def _begin(self, prev: int) -> None:
        if not self._begun:
            self._begun, self.marked = True, prev

    def _follows(self, prev: int, last: int) -> None:
        if prev != self.marked:
            raise Wrong(f"prev_commit_ts {prev} after a marker of {self.marked}")
        self.marked = last

    async def follow(self, bus: Bus) -> None:
        """Until cancelled. Raises Wrong."""
        while True:
            reader = await opened(bus, self._feed, anywhere=self._anywhere)
            try:
                while True:
                    for message in await reader.next_batch(500, 1.0):
                        self.take(message)
            except Purged:
                if self._begun or self._sequence:
                    raise
            finally:
                await reader.close()


async def opened(bus: Bus, feed: str, *, anywhere: bool = False) -> StreamReader:
    """From the stream's first message on, once there is a stream; `anywhere`: from the first that
    it still has, which may be gone (Purged) by then."""
    stream = subjects.changes_stream(feed)
    while True:
        try:
            state = await bus.stream_state(stream) if anywhere else None
            return await bus.read(stream, start_seq=state.first_seq if state is not None else 1)
        except (StreamMissing, Unavailable):
            await asyncio.sleep(OPEN_S)  # nobody tells when it is there
