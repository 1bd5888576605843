"""`tidelog tail`: the change stream as it goes by, a line an event."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from tidelog.changes import DdlMessage, Event, RowMessage
from tidelog.errors import BadInput, StreamMissing
from tidelog.feed_reader import newest_mark
from tidelog.ports import Bus
from tidelog.rewind import Rewinding
from tidelog.subscriber.assemblers import Reached
from tidelog.subscriber.subscription import whole_batches
from tidelog.subscriber.tables import Tables
from tidelog.subscriber.transaction import Source, Transaction, transactions
from tidelog.timestamps import TS_MAX

BUFFER_BYTES = 8 << 20
"""A larger transaction is read in parts."""

NOW = "now"

Line = dict[str, Any]


async def beginning(bus: Bus, feed: str, after: str) -> int | None:
    """What `--after` means: a commit_ts; of NOW where the stream ends; None = where it begins, also
    while it holds nothing: then all is new. Raises BadInput, Unavailable, UnparsablePayload."""
    if after == NOW:
        try:
            return await newest_mark(bus, feed)
        except StreamMissing:
            return None
    try:
        given = int(after)
    except ValueError:
        given = TS_MAX + 1
    if not -1 <= given <= TS_MAX:
        raise BadInput(
            f"--after {after!r} is no commit_ts", hint=f"a number from 0 to {TS_MAX}, or {NOW}"
        )
    return None if given < 0 else given


def ddl_line(ddl: DdlMessage) -> Line:
    return {"commit_ts": ddl.commit_ts, "ddl": ddl.query, "db": ddl.db}


def event_line(rows: RowMessage, event: Event) -> Line:
    name = f"{rows.db}.{rows.table}"
    line = {"commit_ts": event.commit_ts, "table": name, "op": event.op, "key": event.key}
    return line | {"before": event.before, "after": event.after, "b64": event.b64}


def watermark_line(resolved_ts: int) -> Line:
    return {"resolved_ts": resolved_ts}


async def lines(txn: Transaction, table: str) -> AsyncIterator[Line]:
    """What a transaction shows: its DDLs, then its rows by table."""
    for ddl in txn.ddls:
        yield ddl_line(ddl)
    async for part in txn.parts():
        for rows in part:
            if table in ("", rows.table, f"{rows.db}.{rows.table}"):
                for event in rows.events:
                    yield event_line(rows, event)


async def follow(
    bus: Bus,
    cluster: str,
    feed: str,
    *,
    after: int | None,
    table: str,
    watermarks: bool,
    until_idle: bool,
    rewinds: str,
) -> AsyncIterator[Line]:
    """Lines for ever, or up to where the stream ends now: watermarks alone never end. `rewinds`:
    as whom the Drainer is asked for what the stream no longer holds; "" = nobody is asked. Raises
    StreamMissing if an end is wanted of a feed that has none."""
    rewinding = Rewinding(bus, cluster, feed, rewinds) if rewinds else None
    reader = whole_batches(bus, feed, after, Tables(), BUFFER_BYTES, rewinding)
    source = Source(bus, feed, Tables(), reader.keep)
    end = await _end(bus, feed) if until_idle else TS_MAX
    try:
        while (reader.position or 0) < end:
            for found in await reader.next(1.0):
                if not isinstance(found, Reached):
                    for txn in transactions(source, found):
                        async for line in lines(txn, table):
                            yield line
                elif watermarks:
                    yield watermark_line(found.commit_ts)
    finally:
        await reader.close()


async def _end(bus: Bus, feed: str) -> int:
    try:
        return await newest_mark(bus, feed) or 0
    except StreamMissing as error:
        raise StreamMissing(
            f"feed {feed!r} has no stream", hint="`tidelog feed list` shows the feeds' names"
        ) from error


def as_text(line: Line) -> str:
    """One readable line."""
    if "ddl" in line:
        return f"{line['commit_ts']}  ddl  {line['db']}: {line['ddl']}"
    if "resolved_ts" in line:
        return f"{line['resolved_ts']}  --"
    shown = line["after"] if line["after"] is not None else line["before"]
    return (
        f"{line['commit_ts']}  {line['op']}  {line['table']}  {msgspec.json.encode(shown).decode()}"
    )
