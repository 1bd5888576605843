"""The kinds of tables the workload makes: TableInfo, CREATE TABLE, and key values. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from tidelog.rows.values import Value
from tidelog.schema.model import (
    FLAG_NOT_NULL,
    FLAG_PRIMARY,
    ColumnInfo,
    IndexColumn,
    IndexInfo,
    Name,
    TableInfo,
)
from tidelog.workload.column_kinds import (
    BIN,
    DOUBLE,
    INT,
    JSON,
    LONGTEXT,
    NAME,
    NAME_CI,
    PAYLOADS,
    SMALL,
    UNSIGNED,
    ColumnKind,
)
from tidelog.workload.dice import Dice

Row = dict[str, Value]
DrawKey = Callable[[Dice, int], Value]


class ColumnPlan(msgspec.Struct, frozen=True):
    name: str
    kind: ColumnKind
    not_null: bool = False
    draw_key: DrawKey | None = None
    """For key columns: a value from a serial number, new for a new number."""


class TablePlan(msgspec.Struct, frozen=True):
    """`primary`: () = none. `clustered`: TiDB keeps the rows under the primary key."""

    columns: tuple[ColumnPlan, ...]
    primary: tuple[str, ...] = ()
    clustered: bool = True
    unique: tuple[tuple[str, tuple[str, ...]], ...] = ()
    duplicates: bool = False
    """Rows equal in every column are drawn often."""


def _serial(dice: Dice, number: int) -> Value:
    return number - 1000


def _top_half(dice: Dice, number: int) -> Value:
    return (1 << 64) - number if number % 2 else number


def _code(dice: Dice, number: int) -> Value:
    """Collated: other numbers differ by more than case."""
    text = f"key-{number}-{'abc'[number % 3]}"
    return dice.pick((text, text.upper(), text.title()))


def _exact(dice: Dice, number: int) -> Value:
    return f"{'Kk'[number % 2]}{number // 2}"


def _region(dice: Dice, number: int) -> Value:
    return number % 7


ID = ColumnPlan("id", INT, True, _serial)
BIG_ID = ColumnPlan("id", UNSIGNED, True, _top_half)
CODE = ColumnPlan("code", NAME_CI, True, _code)
EXACT = ColumnPlan("sku", NAME, True, _exact)
REGION = ColumnPlan("region", INT, True, _region)
MAYBE = ColumnPlan("maybe", INT, False, _serial)


def draw_plan(dice: Dice, number: int, *, large: bool) -> TablePlan:
    """A plan of kind `number` (mod the number of kinds) with random further columns."""
    more = [
        ColumnPlan(f"c{at}", dice.pick(PAYLOADS), dice.chance(0.3))
        for at in range(dice.between(1, 6))
    ]
    if large:
        more.append(ColumnPlan("body", LONGTEXT))
    rest = tuple(more)
    kinds = (
        TablePlan((ID, *rest), ("id",)),
        TablePlan((BIG_ID, *rest), ("id",)),
        TablePlan((CODE, *rest), ("code",)),
        TablePlan((REGION, EXACT, *rest), ("region", "sku")),
        TablePlan((*rest, EXACT, MAYBE), ("sku",), clustered=False, unique=(("um", ("maybe",)),)),
        TablePlan(
            (ColumnPlan("n", SMALL), ColumnPlan("x", DOUBLE), ColumnPlan("j", JSON)),
            duplicates=True,
        ),
        TablePlan((EXACT, *rest, MAYBE), unique=(("us", ("sku",)), ("um", ("maybe",)))),
    )
    return kinds[number % len(kinds)]


KINDS = 7


def table_info(plan: TablePlan, table_id: int, name: str) -> TableInfo:
    """The TableInfo TiDB would give the plan's CREATE TABLE."""
    columns = tuple(
        _column(column, at, column.name in plan.primary) for at, column in enumerate(plan.columns)
    )
    offsets = {column.name: at for at, column in enumerate(plan.columns)}
    handle = plan.clustered and len(plan.primary) == 1 and offsets.keys() >= {"id"}
    keys = list(plan.unique)
    if plan.primary and not handle:
        keys.append(("PRIMARY", plan.primary))
    indexes = tuple(
        IndexInfo(
            number,
            Name(key, key.lower()),
            tuple(IndexColumn(Name(c, c), offsets[c]) for c in parts),
            is_unique=True,
            is_primary=key == "PRIMARY",
        )
        for number, (key, parts) in enumerate(keys, 1)
    )
    return TableInfo(
        table_id,
        Name(name, name.lower()),
        "utf8mb4",
        BIN,
        columns,
        indexes or None,
        pk_is_handle=handle,
        is_common_handle=bool(plan.primary) and plan.clustered and not handle,
    )


def _column(plan: ColumnPlan, at: int, primary: bool) -> ColumnInfo:
    flag = plan.kind.type.Flag | (FLAG_NOT_NULL if plan.not_null else 0)
    flag |= FLAG_PRIMARY if primary else 0
    kind = msgspec.structs.replace(plan.kind.type, Flag=flag)
    return ColumnInfo(at + 1, Name(plan.name, plan.name.lower()), at, kind)


def create_query(plan: TablePlan, name: str) -> str:
    """CREATE TABLE as TiDB normalises it."""
    parts = [column_sql(column) for column in plan.columns]
    if plan.primary:
        how = "CLUSTERED" if plan.clustered else "NONCLUSTERED"
        parts.append(f"PRIMARY KEY({_list(plan.primary)}) /*T![clustered_index] {how} */")
    parts.extend(f"UNIQUE `{key}`({_list(columns)})" for key, columns in plan.unique)
    charset = "DEFAULT CHARACTER SET = UTF8MB4 DEFAULT COLLATE = UTF8MB4_BIN"
    return f"CREATE TABLE `{name}` ({','.join(parts)}) {charset};"


def column_sql(column: ColumnPlan) -> str:
    null = " NOT NULL" if column.not_null else ""
    sql = column.kind.sql
    if null:
        sql = sql.removesuffix(" NULL")
    if column.kind.sql.startswith("TIMESTAMP") and null:
        null += " DEFAULT '2000-01-01 00:00:00'"
    return f"`{column.name}` {sql}{null}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
