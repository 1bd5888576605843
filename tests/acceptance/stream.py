"""What a feed's stream holds, read as an application reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from tests.markers import marked
from tidelog.change_reader import Change, ChangeReader
from tidelog.real.bus import NatsBus

FOLLOW_S = 120
"""So long a subscriber waits for the stream to go on."""


async def _read(url: str, feed: str, until: int) -> list[Change]:
    bus = await NatsBus.connect(url, name="test")
    reader = ChangeReader(bus, feed, None)
    found: list[Change] = []
    try:
        async with asyncio.timeout(60):
            while not found or found[-1].commit_ts < until:
                found += await reader.next(1.0)
    finally:
        await reader.close()
        await bus.close()
    return found


def read_stream(url: str, feed: str, until: int) -> list[Change]:
    """Every change and watermark from the stream's start up to commit_ts `until`."""
    return asyncio.run(_read(url, feed, until))


class Follower:
    """A subscriber from the feed's first transaction on, in a thread of its own, over whatever
    happens; `position`: the commit_ts up to which it has read."""

    def __init__(self, url: str, feed: str, until: int) -> None:
        self.position = 0
        self._url, self._feed, self._until = url, feed, until
        self._pool = ThreadPoolExecutor(1)
        self._reading = self._pool.submit(asyncio.run, self._follow())

    async def _follow(self) -> list[Change]:
        bus = await NatsBus.connect(self._url, name="subscriber")
        reader = ChangeReader(bus, self._feed, 0)
        found: list[Change] = []
        try:
            while self.position < self._until:
                async with asyncio.timeout(FOLLOW_S):
                    await self._beyond(reader, self.position, found)
        finally:
            await reader.close()
            await bus.close()
        return found

    async def _beyond(self, reader: ChangeReader, position: int, found: list[Change]) -> None:
        while self.position <= position:
            found += await reader.next(1.0)
            self.position = found[-1].commit_ts if found else 0

    def result(self) -> list[Change]:
        """What it read, once it is where it was to read to."""
        return self._reading.result()

    def check(self) -> None:
        """Raises what ended it early."""
        if self._reading.done():
            self._reading.result()

    def close(self) -> None:
        self._pool.shutdown()


@contextmanager
def following(url: str, feed: str, until: int) -> Iterator[Follower]:
    """A subscriber beside the test, up to commit_ts `until`."""
    follower = Follower(url, feed, until)
    try:
        yield follower
    finally:
        follower.close()


async def markers_of(url: str, feed: str) -> list[int]:
    """The commit_ts of every transaction as the markers tell them, which no reader has sifted."""
    bus = await NatsBus.connect(url, name="test")
    try:
        async with asyncio.timeout(60):
            return await marked(bus, feed)
    finally:
        await bus.close()


def read_markers(url: str, feed: str) -> list[int]:
    """The same, outside of an event loop."""
    return asyncio.run(markers_of(url, feed))


def commit_timestamps(changes: list[Change]) -> list[int]:
    """One a transaction, in stream order."""
    return [txn.commit_ts for change in changes for txn in change.txns]
