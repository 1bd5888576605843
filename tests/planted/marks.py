"""The chain of marks in a feed's stream, as a reader that never stops would meet it (I5).

Readers skip what they have, so a mark at the wrong place harms only who begins there: the rule
itself is checked, in what the stream holds when a history is over.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.change_bodies import marker_of, watermark_of
from tidelog.ports import Message
from tidelog.subjects import changes_txn, changes_watermark


def broken_marks(messages: Iterable[Message], feed: str) -> list[str]:
    """One sentence for each marker that does not lie above all marks before it, and for each mark
    whose prev_commit_ts is not the commit_ts of the marker before it."""
    found: list[str] = []
    passed = 0
    last: int | None = None
    for message in messages:
        if message.subject == changes_txn(feed):
            marker = marker_of(message)
            first, end = marker.txns[0].commit_ts, marker.txns[-1].commit_ts
            if first <= passed:
                found.append(f"a marker from {first} on stands behind a mark of {passed}")
            prev, before, last = marker.prev_commit_ts, last, end
        elif message.subject == changes_watermark(feed):
            mark = watermark_of(message)
            end, prev, before = mark.resolved_ts, mark.prev_commit_ts, last
        else:
            continue
        if before is not None and prev != before:
            found.append(f"the mark of {end} says that {prev} is before it, and {before} is")
        passed = max(passed, end)
    return found
