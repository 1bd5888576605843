"""Rows of a relay's chunk: bodies as the stream had them, but for what a view cuts off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from tidelog.decode.ddl_filter import IGNORED_TXN
from tidelog_backfill.files import row_texts
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.files.records import corrupt
from tidelog_backfill.files.relays import Entry, Relay
from tidelog_backfill.files.spans import Spans


def relay_bodies(relay: Relay, spans: Spans, left_out: Counter[str]) -> Iterator[Body]:
    """`left_out`: of rows. Raises Corrupt."""
    for entry in relay:
        if not entry.rows or not spans.touch(entry.after, entry.commit_ts):
            continue
        whole = spans.cover(entry.after, entry.commit_ts)
        seq = entry.offset  # bodies take more bytes than they have events: no two share a place
        for body in entry.rows:
            shown = body if whole else _shown(relay.path, entry, body, spans, left_out)
            if shown:
                yield Body(shown, seq, entry.after)
            seq += len(body)


def _shown(path: str, entry: Entry, body: bytes, spans: Spans, left_out: Counter[str]) -> bytes:
    try:
        message = row_texts.placed(body)
        times = [one.commit_ts for one in message.events if one.commit_ts > entry.after]
        left_out[IGNORED_TXN] += sum(map(spans.ignores, times))
        reason = spans.why_not(message.db, message.table, message.schema_version)
        if reason:
            left_out[reason] += sum(spans.of(commit_ts) is not None for commit_ts in times)
            return b""
        return row_texts.cut(body, message, lambda commit_ts: spans.of(commit_ts) is not None)
    except msgspec.DecodeError as error:
        raise corrupt(path, entry.offset, f"a body of the stream: {error}") from error
