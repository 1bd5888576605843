"""What a feed's stream holds, read as an application reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from tidelog.change_reader import Change, ChangeReader
from tidelog.real.bus import NatsBus

FOLLOW_S = 240


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


@contextmanager
def following(url: str, feed: str, until: int) -> Iterator[Future[list[Change]]]:
    """A subscriber beside the test, from the feed's first transaction on, over whatever happens;
    the future has what it read once it saw commit_ts `until`."""

    async def follow() -> list[Change]:
        bus = await NatsBus.connect(url, name="subscriber")
        reader = ChangeReader(bus, feed, 0)
        found: list[Change] = []
        try:
            async with asyncio.timeout(FOLLOW_S):
                while not found or found[-1].commit_ts < until:
                    found += await reader.next(1.0)
        finally:
            await reader.close()
            await bus.close()
        return found

    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(asyncio.run, follow())


def commit_timestamps(changes: list[Change]) -> list[int]:
    """One a transaction, in stream order."""
    return [txn.commit_ts for change in changes for txn in change.txns]
