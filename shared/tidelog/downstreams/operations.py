"""What a DDL asks of a downstream, free of any dialect. Pure.

Derived from the job's kind and the structures before and after, not from the query's text: the text
is TiDB's dialect, leaves character sets to TiDB's defaults, and is not there for what a kind means
to the rows (TRUNCATE PARTITION, EXCHANGE PARTITION, RECOVER TABLE).
"""

from __future__ import annotations

import msgspec

from tidelog.changes import DdlMessage, DdlTable
from tidelog.schema.structure import PartitionStructure, TableStructure


class CreateDatabase(msgspec.Struct, frozen=True):
    db: str


class DropDatabase(msgspec.Struct, frozen=True):
    db: str


class Create(msgspec.Struct, frozen=True):
    """A table, view or sequence."""

    db: str
    structure: TableStructure


class Drop(msgspec.Struct, frozen=True):
    """Rows are kept for Recover. `with_db`: the whole schema goes."""

    db: str
    structure: TableStructure


class Truncate(msgspec.Struct, frozen=True):
    """Rows are kept for Recover under the id of `before`."""

    db: str
    before: TableStructure
    after: TableStructure


class Recover(msgspec.Struct, frozen=True):
    """The table with this id comes back, rows and all, under a name that may be new."""

    db: str
    structure: TableStructure


class Rename(msgspec.Struct, frozen=True):
    db_before: str
    before: str
    db_after: str
    after: str
    kind: str = "table"


class Alter(msgspec.Struct, frozen=True):
    """Columns, keys, comments, partitioning: whatever differs."""

    db: str
    before: TableStructure
    after: TableStructure


class EmptyPartitions(msgspec.Struct, frozen=True):
    """The rows of `partitions` (as they were in `before`) go; with `drop` the partitions too."""

    db: str
    before: TableStructure
    partitions: tuple[PartitionStructure, ...]
    drop: bool


class Exchange(msgspec.Struct, frozen=True):
    """The rows of `partition` of the first table and all rows of the second change places."""

    db: str
    table: TableStructure
    partition: PartitionStructure
    plain_db: str
    plain: TableStructure


Operation = (
    CreateDatabase
    | DropDatabase
    | Create
    | Drop
    | Truncate
    | Recover
    | Rename
    | Alter
    | EmptyPartitions
    | Exchange
)

_WITHOUT_EFFECT = frozenset(
    (
        "lock_table",
        "unlock_table",
        "repair_table",
        "set_tiflash_replica",
        "update_tiflash_replica_status",
        "shard_row_id",
        "rebase_auto_id",
        "rebase_auto_random_base",
        "modify_auto_id_cache",
        "cache_table",
        "nocache_table",
        "alter_stats_options",
    )
)
"""Kinds that change nothing a downstream could hold."""


def operations(ddl: DdlMessage) -> list[Operation]:
    """The steps of a DDL in order; empty for one that means nothing downstream."""
    kind = ddl.kind
    if kind == "create_schema":
        return [CreateDatabase(ddl.db)]
    if kind == "drop_schema":
        return [*_drops(ddl), DropDatabase(ddl.db)]
    if kind in ("recover_table", "recover_schema"):
        back = [Recover(t.db_after, t.after) for t in ddl.tables if t.after is not None]
        return [CreateDatabase(ddl.db), *back] if kind == "recover_schema" else list(back)
    if kind in ("rename_table", "rename_tables"):
        return list(_renames(ddl))
    if kind == "exchange_partition":
        return list(_exchange(ddl))
    if kind in _WITHOUT_EFFECT:
        return []
    steps: list[Operation] = []
    for table in ddl.tables:
        steps.extend(_one(kind, table))
    return steps


def _one(kind: str, table: DdlTable) -> list[Operation]:
    before, after = table.before, table.after
    if after is None:
        return [] if before is None else [Drop(table.db_before, before)]
    db = table.db_after
    if before is None or kind.startswith("create_") or after.kind != "table":
        return [Create(db, after)]
    if kind == "truncate_table":
        return [Truncate(db, before, after)]
    if kind in ("truncate_partition", "drop_partition"):
        gone = _new_ids(before, after)
        steps: list[Operation] = []
        if gone:
            steps.append(EmptyPartitions(db, before, gone, kind == "drop_partition"))
        return steps
    return [Alter(db, before, after)]


def _drops(ddl: DdlMessage) -> list[Operation]:
    return [Drop(t.db_before, t.before) for t in ddl.tables if t.before is not None]


def _new_ids(before: TableStructure, after: TableStructure) -> tuple[PartitionStructure, ...]:
    """Partitions of `before` whose physical id `after` doesn't have."""
    kept = {p.id for p in after.partitioning.partitions} if after.partitioning else frozenset()
    old = before.partitioning.partitions if before.partitioning else ()
    return tuple(partition for partition in old if partition.id not in kept)


def _exchange(ddl: DdlMessage) -> list[Operation]:
    pairs = [(t, t.before, t.after) for t in ddl.tables]
    whole = [(t, b, a) for t, b, a in pairs if b is not None and a is not None]
    parted = [(t, b, a) for t, b, a in whole if b.partitioning is not None]
    plain = [(t, b) for t, b, _ in whole if b.partitioning is None]
    steps: list[Operation] = []
    if len(parted) == 1 and len(plain) == 1:
        table, before, after = parted[0]
        other, other_before = plain[0]
        steps += [
            Exchange(table.db_before, before, partition, other.db_before, other_before)
            for partition in _new_ids(before, after)
        ]
    return steps


def _renames(ddl: DdlMessage) -> list[Rename]:
    """Single renames in order. One whose target is still another table's name goes by a temporary
    name, so that a ring given as pairs only comes out right too."""
    pairs = [
        (Rename(t.db_before, t.before.name, t.db_after, t.after.name, t.after.kind), t.before.id)
        for t in ddl.tables
        if t.before is not None and t.after is not None
    ]
    occupied: list[tuple[str, str]] = []
    reached: list[tuple[tuple[str, str], int]] = []
    for rename, table_id in pairs:
        source = (rename.db_before, rename.before)
        if (source, table_id) not in reached:
            occupied.append(source)
        reached.append(((rename.db_after, rename.after), table_id))
    steps: list[Rename] = []
    last: list[Rename] = []
    for number, (rename, _) in enumerate(pairs):
        source, target = (rename.db_before, rename.before), (rename.db_after, rename.after)
        if source == target:
            continue
        if source in occupied:
            occupied.remove(source)
        if target in occupied:
            detour = f"{rename.after[:40]}_tidelog_{number}"
            steps.append(Rename(*source, rename.db_after, detour, rename.kind))
            last.append(Rename(rename.db_after, detour, *target, rename.kind))
        else:
            steps.append(rename)
    return steps + last
