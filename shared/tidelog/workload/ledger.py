"""What the workload tells whoever checks: every transaction the source committed. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256

import msgspec

from tidelog.rows.values import Value

Image = Mapping[str, Value] | None
Event = tuple[str, str, str, Image, Image]
"""(db, table, op, before, after), op as in the change stream: c, u, d."""


class Committed(msgspec.Struct, frozen=True):
    """`kind`: "rows", "ddl", or "nothing" (a DDL binlog that changes nothing: the first of DROP
    COLUMN's two). `digest` is of the rows' events, "" for a DDL; `dead`: its Commit was never
    sent, the Pump must find out. Told before the Commit is written."""

    commit_ts: int
    start_ts: int
    kind: str
    rows: int = 0
    digest: str = ""
    query: str = ""
    dead: bool = False


Ledger = Callable[[Committed], None]


def digest(events: Iterable[Event]) -> str:
    """The same for the same multiset of events, whatever their order: what a reader of the change
    stream computes from one transaction's events. Numbers compare by value, 1.0 is 1."""
    lines = sorted(
        msgspec.json.encode([db, table, op, canonical(before), canonical(after)], order="sorted")
        for db, table, op, before, after in events
    )
    return sha256(b"\n".join(lines)).hexdigest()[:32]


def canonical(value: object) -> object:
    """Floats that are whole as integers, containers copied."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    if isinstance(value, Mapping):
        return {name: canonical(item) for name, item in value.items()}
    if isinstance(value, list):
        return [canonical(item) for item in value]
    return value
