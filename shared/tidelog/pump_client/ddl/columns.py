"""A column definition in SQL -> TiDB's ColumnInfo."""

from __future__ import annotations

from base64 import b64encode
from typing import Final

import msgspec

from tidelog.pump_client.ddl.errors import DdlRefused
from tidelog.pump_client.ddl.names import named
from tidelog.pump_client.ddl.parse import Tree, kind, refuse
from tidelog.pump_client.ddl.types import collation, field_type
from tidelog.pump_client.tables.convert import convert
from tidelog.rows.errors import BadValue
from tidelog.rows.values import (
    INT_TYPES,
    STRING_TYPES,
    T_BIT,
    T_DATETIME,
    T_DOUBLE,
    T_FLOAT,
    T_JSON,
    T_STRING,
    T_TIMESTAMP,
    T_VARCHAR,
)
from tidelog.schema.model import (
    FLAG_AUTO_INCREMENT,
    FLAG_NOT_NULL,
    FLAG_ON_UPDATE_NOW,
    FLAG_PRIMARY,
    ColumnInfo,
    Default,
)

_NOW: Final = ("CurrentTimestamp",)
_NOW_CALLS: Final = ("now", "localtime", "localtimestamp")


class Definition(msgspec.Struct, frozen=True):
    """A column, and the keys that its definition names."""

    column: ColumnInfo
    primary: bool
    unique: bool


def definition(tree: Tree, column_id: int, charset: tuple[str, str]) -> Definition:
    """`tree` is sqlglot's ColumnDef. Raises DdlNotSupported, DdlRefused."""
    found = {kind(one.kind): one.kind for one in tree.args.get("constraints") or []}
    if len(found) < len(tree.args.get("constraints") or []):
        raise refuse(tree, "says a thing twice")
    if tree.args.get("kind") is None:
        raise refuse(tree, "has no type")
    own = collation(
        _word(found.pop("CharacterSetColumnConstraint", None)),
        _word(found.pop("CollateColumnConstraint", None)),
        charset,
    )
    field = field_type(tree.args["kind"], *own)
    flag = field.Flag
    null = found.pop("NotNullColumnConstraint", None)
    is_primary = found.pop("PrimaryKeyColumnConstraint", None) is not None
    is_unique = found.pop("UniqueColumnConstraint", None) is not None
    if (null is not None and not null.args.get("allow_null")) or is_primary:
        flag |= FLAG_NOT_NULL
    flag |= FLAG_PRIMARY if is_primary else 0
    if found.pop("AutoIncrementColumnConstraint", None) is not None:
        flag |= FLAG_AUTO_INCREMENT
    if (update := found.pop("OnUpdateColumnConstraint", None)) is not None:
        if not _is_now(update.this) or field.Tp not in (T_DATETIME, T_TIMESTAMP):
            raise refuse(update)
        flag |= FLAG_ON_UPDATE_NOW
    comment = found.pop("CommentColumnConstraint", None)
    column = ColumnInfo(
        column_id,
        named(tree.name),
        0,
        msgspec.structs.replace(field, Flag=flag),
        comment=comment.name if comment is not None else "",
    )
    column = _generated(column, found.pop("ComputedColumnConstraint", None))
    column = _with_default(column, found.pop("DefaultColumnConstraint", None))
    for strange in found.values():
        raise refuse(strange)
    return Definition(column, is_primary, is_unique)


def _word(tree: Tree) -> str:
    return "" if tree is None else str(tree.this.name)


def _is_now(tree: Tree) -> bool:
    called = kind(tree) == "Anonymous" and tree.name.lower() in _NOW_CALLS
    return called or kind(tree) in _NOW


def _generated(column: ColumnInfo, tree: Tree) -> ColumnInfo:
    if tree is None:
        return column
    if tree.args.get("persisted"):
        raise refuse(tree, "is STORED: only a database can compute it; say VIRTUAL")
    expression = tree.this.sql(dialect="mysql", identify=True)
    return msgspec.structs.replace(column, generated_expr_string=expression)


def _with_default(column: ColumnInfo, tree: Tree) -> ColumnInfo:
    if tree is None or kind(tree.this) == "Null":
        if tree is not None and column.not_null:
            raise refuse(tree, "for a NOT NULL column")
        return column
    value, tp = tree.this, column.type.Tp
    if _is_now(value):
        if tp not in (T_DATETIME, T_TIMESTAMP):
            raise refuse(tree, "for a column that is no DATETIME or TIMESTAMP")
        return msgspec.structs.replace(column, default="CURRENT_TIMESTAMP")
    if tp == T_JSON or (tp in STRING_TYPES and tp not in (T_VARCHAR, T_STRING)):
        raise refuse(tree, "for a type that has none")
    try:
        if tp == T_BIT:
            number = int(value.name, 2) if kind(value) == "BitString" else _number(value, tree)
            width = (max(1, column.type.Flen) + 7) // 8
            bits = convert(column, number)
            assert isinstance(bits, int)
            coded = b64encode(bits.to_bytes(width, "big")).decode()
            return msgspec.structs.replace(column, default_bit=coded)
        return msgspec.structs.replace(column, default=_text(column, value, tree))
    except (BadValue, ValueError) as error:
        raise DdlRefused(f"{tree.sql(dialect='mysql')}: {error}") from None


def _text(column: ColumnInfo, value: Tree, tree: Tree) -> Default:
    """A default as TiDB stores it: the text of the value it stands for."""
    tp = column.type.Tp
    if tp in INT_TYPES:
        return str(convert(column, _number(value, tree)))
    if column.type.Charset == "binary" and tp in STRING_TYPES:
        raise refuse(tree, "for binary columns")
    literal = _literal(value, tree)
    if tp in (T_FLOAT, T_DOUBLE):
        return str(convert(column, float(literal)))
    return str(convert(column, literal))


def _literal(value: Tree, tree: Tree) -> str:
    if kind(value) == "Neg":
        return f"-{_literal(value.this, tree)}"
    if kind(value) != "Literal":
        raise refuse(tree, "is no literal")
    return str(value.this)


def _number(value: Tree, tree: Tree) -> int:
    if kind(value) == "Boolean":
        return int(value.this)
    return int(_literal(value, tree))
