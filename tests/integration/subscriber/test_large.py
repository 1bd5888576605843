"""A transaction far above the buffer, on the real server: read in parts, with memory flat."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path

import tidelog
from tests.servers import nats_server
from tests.unit.subscriber.feed import FEED, FeedWriter, Txn
from tidelog.real.bus import NatsBus

TABLE, OTHER = ("app", "a"), ("app", "b")
MESSAGES, MESSAGE_BYTES = 4000, 16 << 10
ROWS_PER_MESSAGE = 4
BUFFER_BYTES = 1 << 20
HELD_BYTES = 36 << 20
"""Two readers (the stream's, and the one of the parts) hold up to 12 MiB each; what they are made
of costs about as much again as it grows, and is let go. The transaction has 64 MiB."""


async def publish(bus: NatsBus) -> None:
    feed = FeedWriter(
        bus, message_bytes=MESSAGE_BYTES, width=MESSAGE_BYTES // ROWS_PER_MESSAGE - 100
    )
    await feed.create()
    await feed.batch([Txn(5, {TABLE: [1], OTHER: [2]})])
    rows = {TABLE: list(range(MESSAGES * ROWS_PER_MESSAGE)), OTHER: [7]}
    await feed.batch([Txn(10, rows)], chunk=500, give_up=True)
    await feed.batch([Txn(20, {TABLE: [3]})])


async def read(url: str) -> tuple[list[int], int]:
    """The commit_ts met, and the peak of what was held while the large one was read."""
    met: list[int] = []
    expected = 0
    async with tidelog.subscribe(
        FEED, nats_url=url, tables=["app.a"], start=0, buffer_bytes=BUFFER_BYTES
    ) as changes:
        tracemalloc.start()
        async for txn in changes.until(20):
            met.append(txn.commit_ts)
            if not txn.large:
                assert sum(len(rows.events) for rows in txn.rows) == 1
                continue
            async for part in txn.parts():
                for rows in part:
                    numbers = [event.after["n"] for event in rows.events if event.after]
                    assert numbers == list(range(expected, expected + len(numbers)))
                    expected += len(numbers)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert expected == MESSAGES * ROWS_PER_MESSAGE
    return met, peak


def test_memory_is_flat(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        bus = await NatsBus.connect(url, timeout_s=20)
        try:
            await publish(bus)
        finally:
            await bus.close()
        met, peak = await read(url)
        assert met == [5, 10, 20]
        assert peak < HELD_BYTES, f"{peak >> 20} MiB"

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))
