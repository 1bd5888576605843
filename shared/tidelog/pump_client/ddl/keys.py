"""Keys and indexes in SQL -> TiDB's IndexInfo."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.pump_client.ddl.errors import DdlRefused
from tidelog.pump_client.ddl.names import named
from tidelog.pump_client.ddl.parse import Tree, kind, refuse
from tidelog.rows.values import STRING_TYPES
from tidelog.schema.model import (
    UNSPECIFIED_LENGTH,
    ColumnInfo,
    IndexColumn,
    IndexInfo,
)

PRIMARY = "PRIMARY"
_VARCHARS = (15, 253, 254)


class Key(msgspec.Struct, frozen=True):
    """A key as a statement names it; "" = unnamed. `parts`: column name, prefix length or -1."""

    name: str
    parts: tuple[tuple[str, int], ...]
    unique: bool = False
    primary: bool = False


def key(tree: Tree) -> Key:
    """A key of CREATE TABLE or ADD. Raises DdlNotSupported."""
    if kind(tree) == "Constraint" and len(tree.expressions) == 1:
        inner = key(tree.expressions[0])
        if not inner.unique:
            raise refuse(tree)
        return inner if inner.name else msgspec.structs.replace(inner, name=tree.name)
    if kind(tree) == "PrimaryKey":
        return Key(PRIMARY, _parts(tree.expressions), unique=True, primary=True)
    if kind(tree) == "UniqueColumnConstraint" and kind(tree.this) == "Schema":
        name = tree.this.this.name if tree.this.this is not None else ""
        return Key(name, _parts(tree.this.expressions), unique=True)
    if kind(tree) == "IndexColumnConstraint" and not tree.args.get("kind"):
        if tree.args.get("options"):
            raise refuse(tree)
        return Key(tree.name, _parts(tree.expressions))
    raise refuse(tree)


def created(tree: Tree) -> Key:
    """The key of CREATE [UNIQUE] INDEX."""
    columns = tree.this.args["params"].args.get("columns") or []
    return Key(tree.this.name, _parts(columns), unique=bool(tree.args.get("unique")))


def index(
    wanted: Key, number: int, columns: Sequence[ColumnInfo], others: Sequence[IndexInfo]
) -> IndexInfo:
    """The index over these columns; an unnamed one is called after its first. Raises DdlRefused."""
    found = {column.name.lower: (at, column) for at, column in enumerate(columns)}
    taken = {other.idx_name.lower for other in others}
    name = wanted.name
    if not name:
        first = name = wanted.parts[0][0]
        again = 2
        while name.lower() in taken:
            name, again = f"{first}_{again}", again + 1
    if name.lower() in taken:
        raise DdlRefused(f"there is a key {name} already")
    parts = []
    for column_name, length in wanted.parts:
        if column_name.lower() not in found:
            raise DdlRefused(f"key {name}: there is no column {column_name}")
        at, column = found[column_name.lower()]
        parts.append(IndexColumn(column.name, at, prefix(column, length)))
    if len({part.offset for part in parts}) < len(parts):
        raise DdlRefused(f"key {name} names a column twice")
    return IndexInfo(
        number,
        named(name),
        tuple(parts),
        is_unique=wanted.unique,
        is_primary=wanted.primary,
    )


def prefix(column: ColumnInfo, length: int) -> int:
    """The length of a part of a key, -1 = whole. Raises DdlRefused."""
    field = column.type
    if field.Tp == 245 or column.virtual:
        raise DdlRefused(f"column {column.name.text} can't be in a key")
    is_text = field.Tp in STRING_TYPES
    if length != UNSPECIFIED_LENGTH and (not is_text or not 0 < length <= field.Flen):
        raise DdlRefused(f"column {column.name.text} has no prefix of length {length}")
    if length == UNSPECIFIED_LENGTH and is_text and field.Tp not in _VARCHARS:
        raise DdlRefused(f"column {column.name.text} needs a prefix length in a key")
    return UNSPECIFIED_LENGTH if length == field.Flen else length


def _parts(trees: Sequence[Tree]) -> tuple[tuple[str, int], ...]:
    parts = []
    for tree in trees:
        part = tree.this if kind(tree) == "Ordered" else tree
        if kind(part) == "ColumnPrefix":
            parts.append((part.this.name, int(part.expression.name)))
        elif kind(part) in ("Column", "Identifier"):
            parts.append((part.name, UNSPECIFIED_LENGTH))
        else:
            raise refuse(tree, "is no column")
    return tuple(parts)
