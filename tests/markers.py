"""What a feed's stream holds by its markers, without what a reader of it forgives: one that comes
twice is skipped by whoever reads by commit_ts."""

from __future__ import annotations

import msgspec

from tests.kills.chain import Chain
from tidelog import subjects
from tidelog.changes import Marker
from tidelog.ports import Bus

NEXT_S = 0.2


async def marked(bus: Bus, feed: str) -> list[int]:
    """The commit_ts of every transaction, from the stream's first marker up to what is its newest
    one now. Raises Wrong where a marker does not link to the one before, or goes back."""
    stream, subject = subjects.changes_stream(feed), subjects.changes_txn(feed)
    newest = await bus.last_message(stream, subject)
    reader = await bus.read(stream, start_seq=1, subjects=(subject,))
    found: list[int] = []
    chain, at = Chain(feed), 0
    try:
        while newest is not None and at < newest.sequence:
            for message in await reader.next_batch(500, NEXT_S):
                marker = msgspec.json.decode(message.data, type=Marker)
                found += chain.mark(marker)
                at = message.sequence
    finally:
        await reader.close()
    return found
