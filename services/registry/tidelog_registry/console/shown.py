"""What the page is sent: one Snapshot each second, and at first the History. Timestamps are texts,
because JavaScript's numbers can't hold them; times are Unix milliseconds of the registry's clock.
"""

from __future__ import annotations

import msgspec


class Lags(msgspec.Struct, frozen=True):
    """How far behind the clock each position is, in ms; None while it is not known."""

    resolved: int | None = None
    published: int | None = None
    applied: int | None = None


class NodeShown(msgspec.Struct, frozen=True):
    """`role`: "leads" or "standby", of a Pump "". `position`: its resolvedTS; `lag_ms`: how far
    that is behind the clock, as in Lags; `heard_ms`: how long ago it told something; `per_s`: its
    counts as rates; `says`: complaints, what it waits for."""

    id: str
    kind: str
    state: str
    unreachable: bool
    role: str
    feed: str
    host: str
    position: str
    lag_ms: int | None
    heard_ms: int | None
    open: int
    per_s: dict[str, float]
    says: list[tuple[str, str]]


class TableShown(msgspec.Struct, frozen=True):
    """`rows`: published since the registry began to listen."""

    name: str
    rows_per_s: float
    rows: int


class OtherTables(msgspec.Struct, frozen=True):
    """All that are not listed. `at_least`: there may be more than `tables`, forgotten ones."""

    tables: int
    rows_per_s: float
    rows: int
    at_least: bool = False


class DdlShown(msgspec.Struct, frozen=True):
    """`why`: what became of one that was not published as it came; "" = published."""

    commit_ts: str
    at_ms: int
    kind: str
    db: str
    query: str
    why: str = ""
    removed: list[str] = []


class ConsumerShown(msgspec.Struct, frozen=True):
    name: str
    position: str
    lag_ms: int | None


class FeedShown(msgspec.Struct, frozen=True):
    name: str
    lag_ms: Lags
    txns_per_s: float
    rows_per_s: float
    tables: list[TableShown]
    others: OtherTables | None
    ddls: list[DdlShown]
    older_ddls: dict[str, int]
    left_out: dict[str, int]
    duplicates: int
    consumers: list[ConsumerShown]


class JobShown(msgspec.Struct, frozen=True):
    id: str
    node: str
    kind: str
    state: str
    stage: str = ""
    done: int = 0
    total: int = 0
    unit: str = ""
    rows: int = 0
    error: str = ""


class Snapshot(msgspec.Struct, frozen=True):
    """`bus`: the registry is connected to NATS. `notes`: what somebody should do; `errors`: node
    and what stops it. `more_nodes`, `more_feeds`: there are that many besides."""

    at_ms: int
    cluster: str
    bus: bool
    settled: bool
    notes: list[str]
    errors: list[tuple[str, str]]
    nodes: list[NodeShown]
    more_nodes: int
    feeds: list[FeedShown]
    more_feeds: int
    jobs: list[JobShown]


class Past(msgspec.Struct, frozen=True):
    """Samples of one feed, oldest first, all lists of one length."""

    at: list[int]
    resolved: list[int | None]
    published: list[int | None]
    applied: list[int | None]
    txns: list[float]
    rows: list[float]


class History(msgspec.Struct, frozen=True):
    step_ms: int
    feeds: dict[str, Past]
