"""Bodies and headers of the change stream (design section 5), as applications read them."""

from __future__ import annotations

from typing import Any

import msgspec

from tidelog.schema.structure import TableStructure
from tidelog.skipped import Skipped
from tidelog.subjects import escape

MESSAGE_BYTES = 256 << 10
"""Largest body of a row message; a larger event is cut into fragments."""
BATCH_MESSAGES = 1000
"""The server's limit for one atomic batch."""

# Headers. Text, so that a reader filters without parsing a body.
H_FIRST_TS = "Tidelog-First-Commit-Ts"
H_LAST_TS = "Tidelog-Last-Commit-Ts"
H_ATTEMPT = "Tidelog-Attempt"
H_INDEX = "Tidelog-Index"
"""Position of the message in its attempt, from 0; the marker's is `messages`."""
H_OPS = "Tidelog-Ops"
"""`c=3,u=1,d=0`"""
H_SCHEMA_VERSION = "Tidelog-Schema-Version"
"""On DDLs: `schema_version` of the body, whatever the envelope."""
H_EARLY = "Tidelog-Early"
"""On DDLs: schema versions published before their own binlogs came, `4,5`. A Drainer that starts
behind this DDL drops those binlogs."""
H_PASSED = "Tidelog-Passed"
"""On DDLs whose binlogs come in another order than their versions: the highest version that was
passed, and those below it that were not, or that the DDL history did not tell of, `7,5,4`. A
Drainer that starts behind this DDL brings them with the first row that needs them."""
H_ENVELOPE = "Tidelog-Envelope"
"""On rows and DDLs that are written in another form than DdlMessage and RowMessage."""
H_KEY = "Tidelog-Key"
"""On rows of the `debezium` envelope: the key as JSON in ASCII, `null` without."""
H_FRAGMENT = "Tidelog-Fragment"
"""`i/n`, i from 0: the bodies of the n messages, joined, are one row message."""
H_ORIGIN = "Tidelog-Origin"
"""Whose Pumps the feed is read from: the cluster's name, or what its Drainer's `origin` says."""
H_EPOCH = "Tidelog-Epoch"
"""The publishing Drainer's epoch and node, `12:drainer-main`, on every message: a foreign one after
ours fences us."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One row. `op`: c created, u updated, d deleted, r read by a backfill. Names in `b64` hold
    base64. `key` is null for a table without a primary or NOT NULL unique key."""

    op: str
    commit_ts: int
    key: dict[str, Any] | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    b64: list[str] = []


class RowMessage(msgspec.Struct, frozen=True):
    """`changes.<feed>.row.<db>.<table>`: changes of one batch in one table, in commit order.
    `schema_version` is the table's own: its structure is at that key in SCHEMAS_<FEED>."""

    db: str
    table: str
    schema_version: int
    events: list[Event]


class DdlTable(msgspec.Struct, frozen=True):
    """One object a DDL touches. `before` or `after` is null for a creation or a drop."""

    db_before: str = ""
    db_after: str = ""
    before: TableStructure | None = None
    after: TableStructure | None = None


class DdlMessage(msgspec.Struct, frozen=True):
    """`changes.<feed>.ddl.<db>.<table>`. `db` is the schema an unqualified query runs in. `table`
    is the (first) table as it is afterwards; `tables` has all of them, before and after.

    `early`: it came with the transaction of this commit_ts, whose rows need it, not by its own
    binlog. `schema_version` tells one DDL from another. `brief`: DROP DATABASE of so many tables
    that `before` has their `name`, `version` and `id` only.
    """

    commit_ts: int
    query: str
    kind: str
    db: str
    schema_version: int
    table: TableStructure | None = None
    tables: list[DdlTable] = []
    early: bool = False
    brief: bool = False


class MarkedTxn(msgspec.Struct, frozen=True):
    """A transaction of a batch. `tables`: its rows by `db.table`, each of both escaped as in
    subjects; a DDL has none. `skipped`: no transaction, but the record of some that came without
    binlogs: the feed lacks them."""

    commit_ts: int
    start_ts: int
    rows: int
    tables: dict[str, int] = {}
    skipped: Skipped | msgspec.UnsetType = msgspec.UNSET


class Marker(msgspec.Struct, frozen=True):
    """`changes.<feed>.txn`, the last message of a batch: everything of `attempt` is complete."""

    attempt: str
    messages: int
    prev_commit_ts: int
    txns: list[MarkedTxn]


class Watermark(msgspec.Struct, frozen=True):
    """`changes.<feed>.watermark`: nothing with commit_ts <= resolved_ts comes any more."""

    resolved_ts: int
    prev_commit_ts: int


def schema_key(db: str, table: str, version: int) -> str:
    """The key of a TableStructure in SCHEMAS_<FEED>; db and table escaped as in subjects."""
    return f"{escape(db)}.{escape(table)}.{version}"


def structure_key(db: str, structure: TableStructure) -> str:
    """A structure's key in SCHEMAS_<FEED>."""
    return schema_key(db, structure.name, structure.version)
