"""Bodies of `drainer.<node>.control` (JSON), and what a feed keeps of its DDLs in `DDL_<FEED>`."""

from __future__ import annotations

import msgspec

from tidelog.timestamps import Ts

FORWARD, REWRITE, SKIP, STOP = "forward", "rewrite", "skip", "stop"
"""What happens to a DDL: published as it is, or without clauses that only its cluster can mean (and
skipped if nothing is left); not published; or the feed stops at it and asks."""

ACTIONS = (FORWARD, REWRITE, SKIP, STOP)

ORDERS_KEY, NOTED_KEY = "orders", "noted"
"""In DDL_<FEED>: `DdlOrders`, `NotedDdls`."""


class DrainerRequest(msgspec.Struct, frozen=True):
    """`ddls`; `ddl-pass` and `ddl-skip` with ts, the commit_ts at which the feed stands;
    `ddl-policy` with kind and action ("" = as configured)."""

    verb: str
    ts: Ts = 0
    kind: str = ""
    action: str = ""


class DecidedDdl(msgspec.Struct, frozen=True):
    """An operator's word on one DDL that the feed stood at."""

    job_id: int
    commit_ts: int
    kind: str
    action: str


class DdlOrders(msgspec.Struct, frozen=True):
    """What operators ordered: for all DDLs of a kind, and for single ones, the newest last.
    `number`: it rises with each; of two copies the one with more is newer."""

    policy: dict[str, str] = {}
    decided: list[DecidedDdl] = []
    number: int = 0


class Ddl(msgspec.Struct, frozen=True):
    """`query` is cut where it is long. `why`: what happened, see docs/operating.md; `removed`: the
    clauses that were taken out of its text."""

    commit_ts: int
    job_id: int
    kind: str
    db: str
    query: str
    why: str
    removed: list[str] = []


class NotedDdls(msgspec.Struct, frozen=True):
    """DDLs that were not published as they came: the newest ones, by commit_ts; of the `older`
    how many, by `why`."""

    ddls: list[Ddl] = []
    older: dict[str, int] = {}


class FeedDdls(msgspec.Struct, frozen=True):
    """Answer to every verb. `stands_at`: the DDL at which the feed waits for an order."""

    feed: str
    stands_at: Ddl | None
    policy: dict[str, str]
    decided: list[DecidedDdl]
    ddls: list[Ddl]
    older: dict[str, int]
