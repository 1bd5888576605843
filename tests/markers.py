"""What a feed's stream holds by its markers, without what a reader of it forgives: one that comes
twice is skipped by whoever reads by commit_ts."""

from __future__ import annotations

import msgspec

from tidelog import subjects
from tidelog.changes import Marker
from tidelog.ports import Bus

NEXT_S = 0.2


async def marked(bus: Bus, feed: str) -> list[int]:
    """The commit_ts of every transaction, from the stream's first marker up to what is its newest
    one now. Raises AssertionError where a marker does not link to the one before, or goes back."""
    stream, subject = subjects.changes_stream(feed), subjects.changes_txn(feed)
    newest = await bus.last_message(stream, subject)
    reader = await bus.read(stream, start_seq=1, subjects=(subject,))
    found: list[int] = []
    at = last = 0
    try:
        while newest is not None and at < newest.sequence:
            for message in await reader.next_batch(500, NEXT_S):
                marker = msgspec.json.decode(message.data, type=Marker)
                times = [txn.commit_ts for txn in marker.txns]
                linked = marker.prev_commit_ts == last and sorted({last, *times}) == [last, *times]
                assert linked, f"{times} with prev_commit_ts {marker.prev_commit_ts} after {last}"
                found += times
                last, at = times[-1], message.sequence
    finally:
        await reader.close()
    return found
