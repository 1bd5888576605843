"""Which columns of a table are written, and how, given what the downstream has. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.downstream import TableRule
from tidelog.downstreams.literals import Kind
from tidelog.schema.structure import ColumnStructure, TableStructure

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
    the column's origin default if we know the column (`None` = the downstream's default)."""

    columns: tuple[Written, ...]
    extra: tuple[tuple[str, ColumnStructure | None], ...]
    absent: tuple[str, ...] = ()
    """In the event's structure and not downstream: a DDL that came first has dropped them, or the
    downstream never had them."""


def writing(
    structure: TableStructure,
    present: Mapping[str, bool],
    newest: TableStructure | None,
) -> Writing:
    """`present`: the downstream's columns, True where it computes the value itself. `newest`: the
    table's structure after its last DDL, if known."""
    ours: list[Written] = []
    for column in structure.columns:
        virtual = bool(column.generated) and not column.generated_stored
        if virtual or present.get(column.name, True):
            continue
        elements = column.elems if column.base == "enum" else None
        ours.append(Written(column.name, kind_of(column), column, elements))
    names = {column.name for column in structure.columns}
    later = {c.name: c for c in newest.columns} if newest is not None else {}
    extra = [
        (name, later.get(name))
        for name, computed in present.items()
        if name not in names and not computed
    ]
    absent = tuple(name for name in (c.name for c in structure.columns) if name not in present)
    return Writing(tuple(ours), tuple(extra), absent)


def rule_of(structure: TableStructure, *, noticed: bool = False) -> TableRule:
    """What the table's own keys allow. `noticed`: the downstream has columns of its own, whose
    values a row would lose that is replaced."""
    unique = [key.parts for key in structure.keys if key.unique]
    unique.sort(key=lambda parts: tuple(p.column for p in parts) != structure.key_columns)
    return TableRule(noticed or not structure.key_columns, not noticed, tuple(unique))
