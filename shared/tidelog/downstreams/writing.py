"""Which columns of a table are written, and how, given what the downstream has. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec

from tidelog.downstream import TableRule
from tidelog.downstreams.literals import Kind
from tidelog.errors import Stopped
from tidelog.schema.structure import ColumnStructure, TableStructure

V = TypeVar("V")
_KINDS = {
    "decimal": Kind.NUMBER,
    "tinyint": Kind.NUMBER,
    "smallint": Kind.NUMBER,
    "mediumint": Kind.NUMBER,
    "int": Kind.NUMBER,
    "bigint": Kind.NUMBER,
    "float": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "bit": Kind.BIT,
    "year": Kind.BIT,
    "date": Kind.TIME,
    "datetime": Kind.TIME,
    "timestamp": Kind.TIME,
    "time": Kind.TIME,
    "json": Kind.JSON,
}


def kind_of(column: ColumnStructure) -> Kind:
    """The form of a column's values in the stream."""
    if column.binary:
        return Kind.BINARY
    return _KINDS.get(column.base, Kind.TEXT)


class Written(msgspec.Struct, frozen=True):
    """A column we write: its name, the form of its values, an ENUM's elements, its structure."""

    name: str
    kind: Kind
    structure: ColumnStructure
    elements: tuple[str, ...] | None = None


class Writing(msgspec.Struct, frozen=True):
    """`columns` are in the event's structure and writable downstream. `extra` are writable
    downstream only: because a DDL that the transaction had not seen yet came first, or because
    somebody added them there. A row that is already there keeps its values of them; a new one gets
    the column's origin default if we know the column (`None` = the downstream's default).

    `key` is what rows are found by: the event's key, with columns that are computed, too; empty
    where a DDL that came first has dropped a column of it. `lenient`: an extra column takes no NULL
    and has no default, so that strict mode would refuse each new row."""

    columns: tuple[Written, ...]
    extra: tuple[tuple[str, ColumnStructure | None], ...]
    key: tuple[Written, ...] = ()
    lenient: bool = False
    absent: tuple[str, ...] = ()
    """In the event's structure and not downstream: a DDL that came first has dropped them, or the
    downstream never had them."""


def spelled(structure: TableStructure, found: Mapping[str, V]) -> dict[str, V]:
    """The downstream's columns by the upstream's spelling: upper and lower case tell no two columns
    of a table apart, on any of these servers."""
    ours = {column.name.lower(): column.name for column in structure.columns}
    return {ours.get(name.lower(), name): value for name, value in found.items()}


def writing(
    structure: TableStructure,
    present: Mapping[str, bool],
    newest: TableStructure | None,
    needing: Collection[str] = (),
) -> Writing:
    """`present`: the downstream's columns, True where it computes the value itself. `newest`: the
    table's structure after its last DDL, if known. `needing`: downstream columns that take no NULL
    and have no default. Raises Stopped where the key was never there."""
    present = spelled(structure, present)
    ours: list[Written] = []
    for column in structure.columns:
        virtual = bool(column.generated) and not column.generated_stored
        if virtual or present.get(column.name, True):
            continue
        ours.append(_written(column))
    names = {column.name for column in structure.columns}
    later = {c.name.lower(): c for c in newest.columns} if newest is not None else {}
    extra = [
        (name, later.get(name.lower()))
        for name, computed in present.items()
        if name not in names and not computed
    ]
    lenient = any(
        name in needing and (known is None or known.origin_default is None) for name, known in extra
    )
    absent = tuple(name for name in (c.name for c in structure.columns) if name not in present)
    key = _key(structure, absent, newest, later)
    return Writing(tuple(ours), tuple(extra), key, lenient, absent)


def _key(
    structure: TableStructure,
    absent: Collection[str],
    newest: TableStructure | None,
    later: Collection[str],
) -> tuple[Written, ...]:
    lacking = [name for name in structure.key_columns if name in absent]
    if any(newest is None or name.lower() in later for name in lacking):
        raise Stopped(
            f"table {structure.name} has no {', '.join(lacking)} downstream, by which its rows are"
            " told apart",
            hint="add it there, or filter the table out of the feed",
        )
    if lacking:
        return ()
    columns = {column.name: column for column in structure.columns}
    return tuple(_written(columns[name]) for name in structure.key_columns)


def _written(column: ColumnStructure) -> Written:
    elements = column.elems if column.base == "enum" else None
    return Written(column.name, kind_of(column), column, elements)


def rule_of(structure: TableStructure, *, noticed: bool = False) -> TableRule:
    """What the table's own keys allow. `noticed`: the downstream has columns of its own, whose
    values a row would lose that is replaced."""
    unique = [key.parts for key in structure.keys if key.unique]
    unique.sort(key=lambda parts: tuple(p.column for p in parts) != structure.key_columns)
    return TableRule(noticed or not structure.key_columns, not noticed, tuple(unique))
