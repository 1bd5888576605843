"""Stored cells of SQLite in a column that got another type, as TiDB's ALTER converts them. Pure."""

from __future__ import annotations

import re
from decimal import Decimal
from struct import Struct

from tidelog.downstreams.literals import Kind
from tidelog.downstreams.sqlite_values import Cell, converted, is_number
from tidelog.downstreams.writing import kind_of
from tidelog.rows.column import shortest_float32
from tidelog.schema.structure import ColumnStructure

_JSON_SIGN = re.compile(r'("(?:[^"\\]|\\.)*")|([,:])')
_FLOAT32 = Struct("<f")
_LARGEST32 = 3.4028234663852886e38

_NUMBERS = frozenset(("number", "real"))
_TEXTS = frozenset(("text", "bytes"))
_SURE: dict[str, frozenset[str]] = {
    "number": _NUMBERS | _TEXTS,
    "real": _NUMBERS | _TEXTS,
    "year": _NUMBERS | _TEXTS | {"year"},
    "bit": _NUMBERS | _TEXTS | {"bit"},
    "enum": _NUMBERS | _TEXTS | {"enum"},
    "date": _NUMBERS | _TEXTS | {"date", "time"},
    "time": _NUMBERS | _TEXTS | {"time"},
    "timestamp": frozenset(("timestamp",)),
    "text": _NUMBERS | _TEXTS,
    "bytes": _TEXTS,
    "json": _TEXTS | {"json"},
}
"""From what to what every value is TiDB's. A TIMESTAMP is another one in each session's zone."""


def is_sure(before: ColumnStructure, after: ColumnStructure) -> bool:
    """Whether each stored value becomes what it becomes upstream."""
    family = _family(after)
    return family in _SURE[_family(before)] and not (before.zerofill and family in _TEXTS)


def altered(cell: Cell, before: ColumnStructure, after: ColumnStructure) -> Cell:
    """What a cell of `before` is in `after`."""
    if cell is None:
        return None
    found = converted(_told(cell, before, after), after)
    if after.base == "binary" and isinstance(found, bytes):
        return found.ljust(after.length, b"\0")
    return found


def _family(column: ColumnStructure) -> str:
    if column.binary:
        return "bytes"
    if column.base in ("year", "bit", "time", "timestamp", "json"):
        return column.base
    if column.base in ("enum", "set"):
        return "enum"
    kinds = {Kind.NUMBER: "number", Kind.FLOAT: "real", Kind.DOUBLE: "real", Kind.TIME: "date"}
    return kinds.get(kind_of(column), "text")


def _told(cell: Cell, before: ColumnStructure, after: ColumnStructure) -> Cell:
    """The cell as `before` tells it to a column of the other kind."""
    family, as_number = _family(before), is_number(after)
    if family == "real" and isinstance(cell, float | int):
        return _real(float(cell), before, after)
    if family == "bit" and not as_number:
        return int(str(cell)).to_bytes((max(before.length, 1) + 7) // 8, "big")
    if family == "json" and not as_number and after.base != "json":
        # MySQL writes a space behind each; ours has none.
        return _JSON_SIGN.sub(lambda found: found[1] or f"{found[2]} ", str(cell))
    if family == "enum" and as_number:
        return _element(str(cell), before)
    if family in ("date", "time", "timestamp") and as_number:
        whole = after.base not in ("decimal", "float", "double")
        text = converted(cell, _whole(before)) if whole and before.base != "date" else cell
        return re.sub("(?!^-)[-: ]", "", str(text))
    return cell


def _real(value: float, before: ColumnStructure, after: ColumnStructure) -> Cell:
    if not is_number(after):
        text = f"{Decimal(repr(value)):f}"
        return text.removesuffix(".0")
    if before.base == "float" and after.base != "float":
        value = _float32(value)
    if after.base == "float":
        return shortest_float32(_float32(value))
    # A DOUBLE is rounded to the even one, a DECIMAL is not.
    return value if after.base in ("decimal", "double") else round(value)


def _float32(value: float) -> float:
    kept = min(max(value, -_LARGEST32), _LARGEST32)
    return _FLOAT32.unpack(_FLOAT32.pack(kept))[0]  # type: ignore[no-any-return]


def _element(text: str, before: ColumnStructure) -> int:
    """The number of an ENUM, the bits of a SET."""
    elems = before.elems
    if before.base == "enum":
        return elems.index(text) + 1 if text in elems else 0
    return sum(1 << elems.index(one) for one in text.split(",") if one in elems)


def _whole(time: ColumnStructure) -> ColumnStructure:
    return ColumnStructure(time.name, time.base, time.base, scale=0)
