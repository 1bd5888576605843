"""A table's structure -> TiDB's own form of it: the way back of `tidelog.schema.structure`. Pure.

What the structure does not tell (partitions, keys on expressions, foreign keys) is not there.
"""

from __future__ import annotations

import re
from base64 import b64encode

from tidelog.downstreams.pb_rows import TYPES
from tidelog.schema.model import (
    FLAG_AUTO_INCREMENT,
    FLAG_NOT_NULL,
    FLAG_ON_UPDATE_NOW,
    FLAG_PRIMARY,
    FLAG_UNSIGNED,
    FLAG_ZEROFILL,
    ColumnInfo,
    FieldType,
    IndexColumn,
    IndexInfo,
    Name,
    TableInfo,
)
from tidelog.schema.structure import ColumnStructure, KeyStructure, TableStructure

_NOW = re.compile(r"CURRENT_TIMESTAMP(?:\(\d*\))?", re.IGNORECASE)


def table_info(structure: TableStructure, table_id: int) -> TableInfo:
    """Column ids count from 1."""
    keyed = {name for key in structure.keys if key.primary for name in key.columns}
    offsets = {column.name: at for at, column in enumerate(structure.columns)}
    keys = [key for key in structure.keys if all(name in offsets for name in key.columns)]
    return TableInfo(
        table_id,
        _name(structure.name),
        structure.charset,
        structure.collation,
        cols=tuple(
            _column(column, at, is_keyed=column.name in keyed)
            for at, column in enumerate(structure.columns)
        ),
        index_info=tuple(_index(key, at, offsets) for at, key in enumerate(keys, 1)) or None,
        comment=structure.comment,
    )


def _name(text: str) -> Name:
    return Name(text, text.lower())


def _column(column: ColumnStructure, at: int, *, is_keyed: bool) -> ColumnInfo:
    text, is_expr, bits = column.default, column.default_is_expr, ""
    if text is not None and column.base == "bit":
        bits, text, is_expr = _bits(text, column.length), None, False
    elif text is not None and is_expr and _NOW.fullmatch(text):
        text, is_expr = "CURRENT_TIMESTAMP", False
    return ColumnInfo(
        id=at + 1,
        name=_name(column.name),
        offset=at,
        type=_type(column, is_keyed=is_keyed),
        origin_default=column.origin_default,
        default=text,
        default_bit=bits or None,
        default_is_expr=is_expr,
        generated_expr_string=column.generated,
        generated_stored=column.generated_stored,
        comment=column.comment,
    )


def _type(column: ColumnStructure, *, is_keyed: bool) -> FieldType:
    flag = FLAG_PRIMARY if is_keyed else 0
    flag |= FLAG_NOT_NULL if is_keyed or not column.nullable else 0
    flag |= FLAG_UNSIGNED if column.unsigned else 0
    flag |= FLAG_ZEROFILL if column.zerofill else 0
    flag |= FLAG_AUTO_INCREMENT if column.auto_increment else 0
    flag |= FLAG_ON_UPDATE_NOW if column.on_update_now else 0
    return FieldType(
        TYPES.get(column.base, 0),
        flag,
        column.length,
        column.scale,
        column.charset,
        column.collation,
        column.elems or None,
    )


def _bits(text: str, length: int) -> str:
    """Of ``b'101'``, as many bytes as the column has."""
    digits = text.removeprefix("b'").removesuffix("'") or "0"
    width = (max(1, length, len(digits)) + 7) // 8
    return b64encode(int(digits, 2).to_bytes(width, "big")).decode()


def _index(key: KeyStructure, number: int, offsets: dict[str, int]) -> IndexInfo:
    parts = tuple(
        IndexColumn(_name(part.column), offsets[part.column], part.length or -1)
        for part in key.parts
    )
    name = "PRIMARY" if key.primary else key.name
    return IndexInfo(number, _name(name), parts, key.unique, key.primary)
