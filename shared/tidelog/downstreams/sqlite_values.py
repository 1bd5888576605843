"""How values and types of the change stream are kept in SQLite. Pure.

Decimals, unsigned 64-bit integers and BIT(64) are TEXT, since SQLite's numbers would round or
overflow; times are MySQL's text, JSON is text, binary is BLOB.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from tidelog.downstreams.literals import Kind
from tidelog.downstreams.row_text import json_text
from tidelog.downstreams.writing import kind_of
from tidelog.schema.structure import ColumnStructure

Cell = str | int | float | bytes | None
ToCell = Callable[[Any], Cell]

_MOST = Decimal(10) ** 65
_WIDE = Context(prec=100)
"""More digits than a DECIMAL has, of which 30 may be a fraction: Python's own 28 are too few."""

INTEGER, REAL, TEXT, BLOB = "INTEGER", "REAL", "TEXT", "BLOB"


def storage(column: ColumnStructure) -> str:
    """The declared type, which gives the column its affinity."""
    kind = kind_of(column)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return REAL
    if kind is Kind.BINARY:
        return BLOB
    if kind is Kind.BIT:
        return TEXT if column.base == "bit" and column.length > 63 else INTEGER
    if kind is Kind.NUMBER:
        wide = column.base == "decimal" or (column.base == "bigint" and column.unsigned)
        return TEXT if wide else INTEGER
    return TEXT


def is_number(column: ColumnStructure) -> bool:
    return kind_of(column) in (Kind.NUMBER, Kind.BIT, Kind.FLOAT, Kind.DOUBLE)


def to_cell(column: ColumnStructure) -> ToCell:
    """The conversion of a value that is not marked as base64."""
    kind, declared = kind_of(column), storage(column)
    if kind is Kind.BINARY:
        return _bytes
    if kind is Kind.JSON:
        return _json
    if declared == REAL:
        return _float
    if declared == TEXT and is_number(column):
        return _text
    return _same


def marked_to_cell(column: ColumnStructure) -> ToCell:
    """The conversion of base64: text that is not UTF-8 stays bytes."""
    return _bytes if kind_of(column) is Kind.BINARY else _decoded


def _same(value: Any) -> Cell:
    return value  # type: ignore[no-any-return]


def _text(value: Any) -> Cell:
    return None if value is None else str(value)


def _float(value: Any) -> Cell:
    return None if value is None else float(value)


def _json(value: Any) -> Cell:
    return None if value is None else json_text(value)


def _bytes(value: Any) -> Cell:
    return None if value is None else b64decode(value)


def _decoded(value: Any) -> Cell:
    if value is None:
        return None
    raw = b64decode(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def default_cell(column: ColumnStructure) -> Cell:
    """What rows older than the column hold."""
    origin = column.origin_default
    if origin is None:
        return None
    if column.base == "bit":
        number = int(origin.removeprefix("b'").rstrip("'") or "0", 2)
        return str(number) if storage(column) == TEXT else number
    return converted(origin, column)


def converted(cell: Cell, column: ColumnStructure) -> Cell:
    """A stored cell as a column of another type keeps it, as MySQL's ALTER TABLE converts."""
    if cell is None:
        return None
    kind, declared = kind_of(column), storage(column)
    if kind is Kind.BINARY:
        return cell if isinstance(cell, bytes) else str(cell).encode()
    text = cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)
    if not is_number(column):
        return _time(text, column) if kind is Kind.TIME else text
    number = _decimal(text)
    if declared == REAL:
        return float(number)
    if column.base == "decimal":
        return f"{_rounded(number, max(column.scale, 0)):f}"
    whole = int(_rounded(number, 0))
    return str(whole) if declared == TEXT else whole


def _rounded(number: Decimal, scale: int) -> Decimal:
    kept = min(max(number, -_MOST), _MOST)
    return kept.quantize(Decimal(1).scaleb(-scale), rounding=ROUND_HALF_UP, context=_WIDE)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text.strip() or "0")
    except InvalidOperation:
        return Decimal(0)


def _time(text: str, column: ColumnStructure) -> str:
    if column.base == "date":
        return text[:10]
    if column.base in ("datetime", "timestamp"):
        day, _, rest = text.partition(" ")
        clock, _, fraction = (rest or "00:00:00").partition(".")
        scale = max(column.scale, 0)
        return f"{day} {clock}" + (f".{fraction[:scale].ljust(scale, '0')}" if scale else "")
    return text
