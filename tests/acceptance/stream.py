"""What a feed's stream holds, read as an application reads it."""

from __future__ import annotations

import asyncio

from tidelog.change_reader import Change, ChangeReader
from tidelog.real.bus import NatsBus


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


def commit_timestamps(changes: list[Change]) -> list[int]:
    """One a transaction, in stream order."""
    return [txn.commit_ts for change in changes for txn in change.txns]
