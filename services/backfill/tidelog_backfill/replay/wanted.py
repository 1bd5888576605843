"""What of the logs is replayed. Pure."""

from __future__ import annotations

from typing import Literal

import msgspec

from tidelog.changes import DdlMessage, DdlTable
from tidelog.downstreams.literals import table_name
from tidelog.errors import BadInput
from tidelog.timestamps import TS_MAX
from tidelog_backfill.files.names import Names

SEGMENT_BYTES = 1 << 30
_RENAMES = frozenset(("rename_table", "rename_tables", "exchange_partition"))
"""Kinds that need all their tables to be there, or move rows between them."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """(after_ts, until_ts], of the tables that match a `db.table` pattern; without patterns of all.

    `after_ts`: the downstream's checkpoint; None: it has none, and holds what the upstream held
    where the logs begin. `ddls_done`: the checkpoint's own. `begun_ts`: commit_ts of a DDL that was
    begun, and nobody knows whether it is done; 0 = none. A segment has about `segment_bytes` of
    rows at most, so that no job grows without bound. `on_corrupt`: whether changes that no file
    holds stop the replay. `goes_on`: somebody goes on behind the plan's end, so that nothing at or
    below it may be committed later; without `until_ts` it ends where that is sure.
    """

    after_ts: int | None = None
    until_ts: int = TS_MAX
    tables: tuple[str, ...] = ()
    ddls_done: tuple[int, ...] = ()
    begun_ts: int = 0
    segment_bytes: int = SEGMENT_BYTES
    on_corrupt: Literal["stop", "skip"] = "stop"
    goes_on: bool = True


def wanted_part(ddl: DdlMessage, names: Names) -> DdlMessage | None:
    """A DDL as it is for the tables that are wanted; None: it is for none of them. Of a DROP
    DATABASE they are told apart where readers have them elsewhere. Raises as `is_wanted`."""
    if ddl.kind != "drop_schema" or not ddl.tables:
        return ddl if is_wanted(ddl, names) else None
    own = [one for one in ddl.tables if one.db_before.lower() == ddl.db.lower()]
    others = (one for one in ddl.tables if one.db_before.lower() != ddl.db.lower())
    elsewhere = [one for one in others if any(_sides(one, names))]
    if names.wants_db(ddl.db):
        return msgspec.structs.replace(ddl, tables=[*own, *elsewhere])
    gone = [table_name(one.db_before, one.before.name) for one in elsewhere if one.before]
    query = f"DROP TABLE {', '.join(gone)}"
    alone = {"kind": "drop_table", "tables": elsewhere, "brief": False}
    return msgspec.structs.replace(ddl, query=query, **alone) if gone else None


def is_wanted(ddl: DdlMessage, names: Names) -> bool:
    """Whether a DDL is for the tables that are wanted. Raises BadInput for one that is for some of
    its tables only, and can't be run for these alone."""
    if not ddl.tables or ddl.kind in ("create_schema", "drop_schema", "modify_schema_charset"):
        return names.wants_db(ddl.db)
    sides = [_sides(one, names) for one in ddl.tables]
    some, every = any(map(any, sides)), all(map(all, sides))
    if some and not every and ddl.kind in _RENAMES:
        raise BadInput(
            f"the DDL at {ddl.commit_ts} is for tables that are wanted and others that are not:"
            f" {ddl.query[:200]}",
            hint="name them all, under their old names and their new ones",
        )
    return some


def _sides(one: DdlTable, names: Names) -> list[bool]:
    before = [names.wants(one.db_before, one.before.name)] if one.before is not None else []
    after = [names.wants(one.db_after, one.after.name)] if one.after is not None else []
    return before + after
