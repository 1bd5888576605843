"""Small tables for the Applier's tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidelog.changes import DdlMessage, DdlTable, Event
from tidelog.downstream import TableRule, TableShare
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Planner
from tidelog.schema.structure import (
    ColumnStructure,
    KeyPart,
    KeyStructure,
    Partitioning,
    PartitionStructure,
    TableStructure,
)


def column(name: str, type_text: str, **more: Any) -> ColumnStructure:
    base = type_text.partition("(")[0].partition(" ")[0]
    texts = {"varchar", "char", "text", "enum", "set", "tinytext", "mediumtext", "longtext"}
    charset = {"charset": "utf8mb4", "collation": "utf8mb4_bin"} if base in texts else {}
    binary = base in ("varbinary", "binary", "blob")
    more = {"unsigned": "unsigned" in type_text, "binary": binary} | charset | more
    return ColumnStructure(name, type_text, base, **more)


def table(
    name: str,
    *columns: ColumnStructure,
    key: tuple[str, ...] = (),
    keys: tuple[KeyStructure, ...] = (),
    number: int = 1,
    version: int = 1,
    partitioning: Partitioning | None = None,
) -> TableStructure:
    if key:
        primary = KeyStructure("PRIMARY", tuple(KeyPart(c) for c in key), True, True)
        keys = (primary, *keys)
    numbered = tuple(
        one if one.id else ColumnStructure(**_fields(one) | {"id": i})
        for i, one in enumerate(columns, 1)
    )
    return TableStructure(
        name,
        version,
        columns=numbered,
        keys=keys,
        key_columns=key,
        charset="utf8mb4",
        collation="utf8mb4_bin",
        id=number,
        partitioning=partitioning,
    )


def _fields(one: ColumnStructure) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__struct_fields__}


def share(
    db: str, structure: TableStructure, rule: TableRule, events: Sequence[Event]
) -> list[TableShare]:
    """All of them for one lane."""
    plan = Planner(1).plan(0, [TableEvents(db, structure, rule, list(events))])
    assert plan is not None
    return plan[0]


def created(row: dict[str, Any], b64: tuple[str, ...] = ()) -> Event:
    return Event("c", 1, None, None, row, list(b64))


def updated(before: dict[str, Any], after: dict[str, Any]) -> Event:
    return Event("u", 1, None, before, after)


def deleted(row: dict[str, Any]) -> Event:
    return Event("d", 1, None, row)


def ddl(
    kind: str,
    *tables: tuple[TableStructure | None, TableStructure | None],
    commit_ts: int = 100,
    query: str = "",
    db: str = "d",
) -> DdlMessage:
    """Of tables in the schema `d`: (before, after) each. It has no version of its own."""
    touched = [
        DdlTable(db if before else "", db if after else "", before, after)
        for before, after in tables
    ]
    first = touched[0].after if touched else None
    return DdlMessage(commit_ts, query, kind, db, 0, first, touched)


def ranges(*bounds: tuple[str, str, int]) -> Partitioning:
    """By `id`: (name, upper bound, physical id) each."""
    parts = tuple(PartitionStructure(n, (bound,), (), number) for n, bound, number in bounds)
    return Partitioning("range", "`id`", (), parts)
