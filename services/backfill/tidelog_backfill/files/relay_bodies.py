"""Rows of a relay's chunk: bodies as the stream had them, but for what a view cuts off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tidelog.decode.ddl_filter import IGNORED_TXN
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files import row_texts
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.files.records import unreadable
from tidelog_backfill.files.relays import Entry, Relay
from tidelog_backfill.files.spans import Spans


def relay_bodies(relay: Relay, spans: Spans, left_out: Counter[str] | None) -> Iterator[Body]:
    """`left_out`: of rows; None: nobody asks. Raises Corrupt."""
    cut = _Cut(relay.path, spans, left_out)
    for entry in relay:
        if not entry.rows or not spans.touch(entry.after, entry.commit_ts):
            continue
        covered = spans.cover(entry.after, entry.commit_ts)
        whole = covered and spans.all_names
        seq = entry.offset  # bodies take more bytes than they have events: no two share a place
        for body in entry.rows:
            shown = body if whole else cut.shown(entry, body, covered)
            if shown:
                yield Body(shown, seq, entry.after)
            seq += len(body)


class _Cut:
    """What a view shows of single bodies. It looks at no row where it need not."""

    def __init__(self, path: str, spans: Spans, left_out: Counter[str] | None) -> None:
        self._path = path
        self._spans = spans
        self._left_out = left_out

    def shown(self, entry: Entry, body: bytes, covered: bool) -> bytes:
        """`covered`: all or nothing of it. Raises Corrupt."""
        try:
            head = row_texts.head(body)
            reason = self._spans.why_not(head.db, head.table, head.schema_version)
            if covered and not reason:
                return body
            if reason and self._left_out is None:
                return b""
            message = row_texts.placed(body)
            if self._left_out is not None:
                self._count(self._left_out, reason, entry, message)
            return b"" if reason else row_texts.cut(body, message, self._shows)
        except NOT_READABLE as error:
            what = f"a body of the stream: {error}"
            raise unreadable(self._path, entry.offset, what) from error

    def _shows(self, commit_ts: int) -> bool:
        return self._spans.of(commit_ts) is not None

    def _count(
        self, left_out: Counter[str], reason: str, entry: Entry, message: row_texts.Placed
    ) -> None:
        times = [one.commit_ts for one in message.events if one.commit_ts > entry.after]
        left_out[IGNORED_TXN] += sum(map(self._spans.ignores, times))
        if reason:
            left_out[reason] += sum(map(self._shows, times))
