"""A chunk's row changes as the stream tells them, whatever kind of log it is of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidelog_backfill.files.chunk import Body, Chunk
from tidelog_backfill.files.pb_rows import pb_bodies
from tidelog_backfill.files.records import LogFile, OnCorrupt
from tidelog_backfill.files.relay_bodies import relay_bodies
from tidelog_backfill.files.relays import Relay
from tidelog_backfill.files.segment_bodies import SegmentBodies
from tidelog_backfill.files.segments import Transactions
from tidelog_backfill.files.spans import Spans
from tidelog_backfill.files.view import View


def bodies(
    chunk: Chunk,
    view: View,
    *,
    on_corrupt: OnCorrupt = "stop",
    left_out: Counter[str] | None = None,
) -> Iterator[Body]:
    """What the view shows of it. `left_out` gets what lies in its spans and is not shown, by
    reason: of Pumps' logs as the Drainer counts it, else rows.

    Raises Corrupt; of segments Undecodable for rows that their structure does not fit,
    InvariantBroken for a table that the view does not know."""
    spans = Spans(view)
    counted: Counter[str] = Counter() if left_out is None else left_out
    if chunk.kind == "pb":
        yield from pb_bodies(chunk, spans, on_corrupt, counted)
        return
    with LogFile(chunk.path) as file:
        if chunk.kind == "relay":
            yield from relay_bodies(Relay(file, chunk, on_corrupt), spans, left_out)
        else:
            made = SegmentBodies(spans, view.channel_id, counted)
            yield from made.of(chunk.path, Transactions(file, chunk, on_corrupt))
