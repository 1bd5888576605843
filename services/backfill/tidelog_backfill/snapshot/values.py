"""A server's values -> the stream's (design section 5). Pure.

What the driver converts by its type of the wire it converts there, once per value; the rest, by
column, is done here.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from pymysql.constants import FIELD_TYPE

from tidelog.downstream import Image
from tidelog.downstreams.literals import Kind, name
from tidelog.downstreams.writing import kind_of
from tidelog.rows.column import JSON_NULL, shortest_float32
from tidelog.schema.structure import ColumnStructure, TableStructure

DECODERS: dict[Any, Any] = {
    FIELD_TYPE.TINY: int,
    FIELD_TYPE.SHORT: int,
    FIELD_TYPE.INT24: int,
    FIELD_TYPE.LONG: int,
    FIELD_TYPE.LONGLONG: int,
    FIELD_TYPE.YEAR: int,
    FIELD_TYPE.FLOAT: float,
    FIELD_TYPE.DOUBLE: float,
}
"""For the driver: DECIMALs and times stay the server's text, binary columns bytes."""


def stored(structure: TableStructure) -> tuple[ColumnStructure, ...]:
    """The columns whose values rows carry."""
    return tuple(
        column for column in structure.columns if not column.generated or column.generated_stored
    )


def selected(column: ColumnStructure) -> str:
    """The expression that gives a column's value without a loss: a FLOAT's text has six digits. And
    without what only shows it: the zeros before a DECIMAL ZEROFILL."""
    if column.base == "float":
        return f"{name(column.name)} * 1e0"
    if column.base == "bit" or (column.base == "decimal" and column.zerofill):
        return f"{name(column.name)} + 0"
    return name(column.name)


def _json(text: str) -> msgspec.Raw | str:
    """As the server has it, letter by letter: no number loses a digit. The document null would be
    read as an SQL NULL: it is base64, as the stream has it."""
    return JSON_NULL if text.strip() == "null" else msgspec.Raw(text.encode())


def _base64(raw: bytes) -> str:
    return b64encode(raw).decode()


_CONVERT: dict[Kind, Callable[[Any], object]] = {
    Kind.BINARY: _base64,
    Kind.JSON: _json,
    Kind.FLOAT: shortest_float32,
}


class RowImages:
    """Of one table: rows as the driver gives them, in the order of `stored`, as images."""

    def __init__(self, columns: Sequence[ColumnStructure]) -> None:
        self._names = [column.name for column in columns]
        kinds = {column.name: kind_of(column) for column in columns}
        self._convert = [(n, _CONVERT[kind]) for n, kind in kinds.items() if kind in _CONVERT]
        self._binary = [n for n, kind in kinds.items() if kind is Kind.BINARY]
        self._json = [n for n, kind in kinds.items() if kind is Kind.JSON]

    def of(self, rows: Iterable[Sequence[Any]]) -> list[Image]:
        names, convert, binary, json = self._names, self._convert, self._binary, self._json
        images: list[Image] = []
        for values in rows:
            row = dict(zip(names, values, strict=True))
            for column, function in convert:
                value = row[column]
                if value is not None:
                    row[column] = function(value)
            marked = [column for column in binary if row[column] is not None] if binary else []
            marked += [column for column in json if row[column] is JSON_NULL]
            images.append(Image(row, marked))
        return images
