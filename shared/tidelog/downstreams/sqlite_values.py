"""How values and types of the change stream are kept in SQLite. Pure.

Decimals, unsigned 64-bit integers and BIT(64) are TEXT, since SQLite's numbers would round or
overflow; times are MySQL's text, JSON is text, binary is BLOB.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from tidelog.downstreams.literals import Kind
from tidelog.downstreams.row_text import json_text
from tidelog.downstreams.writing import kind_of
from tidelog.rows.errors import Malformed
from tidelog.rows.times import duration_text, parse_duration
from tidelog.schema.structure import ColumnStructure

Cell = str | int | float | bytes | None
ToCell = Callable[[Any], Cell]

_MOST = Decimal(10) ** 65
_WIDE = Context(prec=100)
"""More digits than a DECIMAL has, of which 30 may be a fraction: Python's own 28 are too few."""

_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,3}(?!\d))?", re.ASCII)
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:(\d\d)(\d\d)(\d\d))?", re.ASCII)
"""A date as digits only."""

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
    """A text, number or bytes as a column keeps them."""
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
    """The number with which a text begins; 0 for none."""
    found = _NUMBER.match(text)
    return Decimal(found[0]) if found is not None else Decimal(0)


def _time(text: str, column: ColumnStructure) -> str:
    """As TiDB does: a DATE is cut, other fractions are rounded up from the half."""
    compact = _COMPACT.fullmatch(text)
    if compact is not None and column.base != "time":
        text = "{}-{}-{} {}:{}:{}".format(*(part or "00" for part in compact.groups()))
    scale = max(column.scale, 0)
    if column.base == "date":
        return text[:10]
    if column.base == "time":
        return _duration(text.rpartition(" ")[2], scale)
    day, _, clock = text.partition(" ")
    whole, _, fraction = (clock or "00:00:00").partition(".")
    unit = 10 ** (6 - scale)
    micros = int(fraction[:6].ljust(6, "0")) if fraction.isdigit() else 0
    try:
        at = datetime.fromisoformat(f"{day} {whole}")
        at += timedelta(microseconds=(micros + unit // 2) // unit * unit)
    except (ValueError, OverflowError):  # 0000-00-00
        return f"{day} {whole}" + (f".{fraction[:scale].ljust(scale, '0')}" if scale else "")
    shown = at.isoformat(" ", "microseconds")
    return shown[: 20 + scale] if scale else shown[:19]


def _duration(text: str, scale: int) -> str:
    unit = 10 ** (9 - scale)
    try:
        return duration_text((parse_duration(text) + unit // 2) // unit * unit, scale)
    except Malformed:
        return text
