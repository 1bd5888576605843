"""What the console hears besides heartbeats: markers, watermarks and DDLs of the feeds. Pure.

They are core NATS messages, heard when they are published: one that is missed only makes a rate
lower for a moment, and nothing is decided by them.
"""

from __future__ import annotations

import msgspec

from tidelog import changes
from tidelog.changes import Watermark
from tidelog.ports import Headers
from tidelog.subjects import is_replay, unescape
from tidelog.timestamps import physical_ms
from tidelog.unreadable import NOT_READABLE
from tidelog_registry.console.shown import DdlShown

QUERY_CHARS = 400
FEED = 1
"""Where the feed's name stands in a subject of changes."""


class BriefTxn(msgspec.Struct, frozen=True, gc=False):
    """Of a marker's transaction what is counted."""

    commit_ts: int
    rows: int
    tables: dict[str, int] = {}


class BriefMarker(msgspec.Struct, frozen=True, gc=False):
    txns: list[BriefTxn]


class BriefDdl(msgspec.Struct, frozen=True):
    """Of a DdlMessage what is shown; the tables' structures are passed over."""

    commit_ts: int
    query: str
    kind: str = ""
    db: str = ""


_MARKER = msgspec.json.Decoder(BriefMarker)
_WATERMARK = msgspec.json.Decoder(Watermark)
_DDL = msgspec.json.Decoder(BriefDdl)


def feed_of(subject: str) -> str:
    """ "" for a replay of one reader."""
    feed = subject.split(".")[FEED]
    return "" if is_replay(feed) else feed


def marker(data: bytes) -> BriefMarker | None:
    """None for what can't be read, as all here."""
    try:
        return _MARKER.decode(data)
    except NOT_READABLE:
        return None


def watermark(data: bytes) -> int | None:
    try:
        return _WATERMARK.decode(data).resolved_ts
    except NOT_READABLE:
        return None


def ddl(subject: str, data: bytes, headers: Headers) -> DdlShown | None:
    """One in another envelope, or cut into fragments, is told by its subject and headers."""
    try:
        told = _DDL.decode(data)
    except NOT_READABLE:
        commit_ts = headers.get(changes.H_FIRST_TS, "")
        names = subject.split(".")[3:]
        whole = headers.get(changes.H_FRAGMENT, "0/").partition("/")[0] == "0"
        if not (whole and commit_ts.isdecimal() and len(commit_ts) < 20 and len(names) == 2):
            return None
        db, table = map(unescape, names)
        told = BriefDdl(int(commit_ts), f"a change of {table}", db=db)
    return shown_ddl(told.commit_ts, told.kind, told.db, told.query)


def shown_ddl(
    commit_ts: int, kind: str, db: str, query: str, why: str = "", removed: list[str] | None = None
) -> DdlShown:
    cut = query if len(query) <= QUERY_CHARS else f"{query[:QUERY_CHARS]} …"
    return DdlShown(str(commit_ts), physical_ms(commit_ts), kind, db, cut, why, removed or [])
