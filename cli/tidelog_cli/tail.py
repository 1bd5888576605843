"""`tidelog tail`: the change stream as it goes by, a line an event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from tidelog.change_reader import Change, ChangeReader
from tidelog.errors import StreamMissing
from tidelog.feed_reader import newest_mark
from tidelog.ports import Bus
from tidelog.rewind import RewindingReader
from tidelog.timestamps import TS_MAX

Line = dict[str, Any]


def lines(change: Change, table: str, watermarks: bool) -> Iterator[Line]:
    """What a change shows: its DDLs, its events in commit order; a watermark on demand."""
    for ddl in change.ddls:
        yield {"commit_ts": ddl.commit_ts, "ddl": ddl.query, "db": ddl.db}
    events = [
        (event.commit_ts, position, f"{message.db}.{message.table}", event)
        for message in change.rows
        if table in ("", message.table, f"{message.db}.{message.table}")
        for position, event in enumerate(message.events)
    ]
    events.sort(key=lambda e: e[0])
    for commit_ts, _, name, event in events:
        line = {"commit_ts": commit_ts, "table": name, "op": event.op, "key": event.key}
        yield line | {"before": event.before, "after": event.after}
    if watermarks and not change.txns:
        yield {"resolved_ts": change.commit_ts}


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
    reader: ChangeReader | RewindingReader
    if rewinds and after is not None:
        reader = RewindingReader(bus, cluster, feed, after, reader=rewinds)
    else:
        reader = ChangeReader(bus, feed, after)
    end = await _end(bus, feed) if until_idle else TS_MAX
    try:
        while (reader.position or 0) < end:
            for change in await reader.next(1.0):
                for line in lines(change, table, watermarks):
                    yield line
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
