"""Where the feed's stream begins: what lies below it, nobody reads any more."""

from __future__ import annotations

from tidelog import changes, subjects
from tidelog.change_bodies import number_of
from tidelog.errors import Purged, StreamMissing, Unavailable, UnparsablePayload
from tidelog.ports import Bus

READ_S = 2.0
TRIES = 5


async def oldest_ts(bus: Bus, feed: str) -> int | None:
    """The first commit_ts of the oldest message, None without any. 0: it has none that can be read
    (no Drainer wrote it), and what is behind it may need all there is. Raises Unavailable."""
    stream = subjects.changes_stream(feed)
    for _ in range(TRIES):
        state = await bus.stream_state(stream)
        if state is None or state.messages == 0:
            return None
        reader = await bus.read(stream, start_seq=state.first_seq)
        try:
            messages = await reader.next_batch(1, READ_S)
        except (Purged, StreamMissing):
            continue  # it went while it was asked for
        finally:
            await reader.close()
        if messages:
            try:
                return number_of(messages[0], changes.H_FIRST_TS)
            except UnparsablePayload:
                return 0
    raise Unavailable(f"the beginning of {stream} could not be read")
