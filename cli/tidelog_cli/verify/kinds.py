"""What a column's values look like as text, the same from every server. Pure.

Each value has a `plain` text, which a database or `of_cell` makes; its `piece` goes into the hash
of its row. Pieces of equal values may differ where servers print in different ways (JSON, floats):
then the rows are fetched, and `meaning` decides. Different values never have the same piece.
"""

from __future__ import annotations

import hashlib
import json
import struct
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any
from zlib import crc32

from tidelog.workload.ledger import canonical

Plain = str | None
Cell = str | int | float | bytes | None


class Kind(Enum):
    INT = "int"
    """BIT and YEAR too."""
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    TEXT = "text"
    LONG_TEXT = "long text"
    BINARY = "binary"
    LONG_BINARY = "long binary"
    TIME = "time"
    JSON = "json"
    STORED = "stored"
    """Each value as it is stored: SQLite does not tell more."""


PRINTED_DIFFERENTLY = frozenset((Kind.FLOAT, Kind.DOUBLE, Kind.JSON))
_BINARY = frozenset((Kind.BINARY, Kind.LONG_BINARY))
_WIDER = {
    frozenset((Kind.TEXT, Kind.LONG_TEXT)): Kind.LONG_TEXT,
    frozenset((Kind.TEXT, Kind.JSON)): Kind.JSON,
    frozenset((Kind.LONG_TEXT, Kind.JSON)): Kind.JSON,
    frozenset((Kind.BINARY, Kind.LONG_BINARY)): Kind.LONG_BINARY,
    frozenset((Kind.FLOAT, Kind.DOUBLE)): Kind.FLOAT,
}
"""How two servers that keep a column differently are compared."""


def common(one: Kind, other: Kind) -> Kind | None:
    """None if values of the two can't be compared."""
    if one is other or other is Kind.STORED:
        return one
    if one is Kind.STORED:
        return other
    return _WIDER.get(frozenset((one, other)))


def of_cell(kind: Kind, cell: Cell) -> Plain:
    """The plain text of a value that Python holds. Raises ValueError if it is not of that kind."""
    if cell is None:
        return None
    if kind in _BINARY:
        return (cell if isinstance(cell, bytes) else _encoded(str(cell))).hex().upper()
    if kind is Kind.STORED:
        return _stored(cell)
    if isinstance(cell, bytes):
        return cell.decode(errors="surrogateescape")
    if kind is Kind.INT:
        return _integer(cell)
    if kind is Kind.DECIMAL:
        return _decimal(str(cell))
    if kind is Kind.FLOAT:
        return double_text(_single(float(cell)))
    if kind is Kind.DOUBLE:
        return double_text(float(cell))
    return str(cell)


def piece(kind: Kind, plain: Plain) -> str:
    """What stands for it in its row's hash; no two of these texts joined by commas are alike."""
    if plain is None:
        return "n"
    if kind in (Kind.TEXT, Kind.STORED):
        return f"{len(_encoded(plain))}:{plain}"
    if kind in (Kind.LONG_TEXT, Kind.JSON):
        return _md5(_encoded(plain))
    return _md5(bytes.fromhex(plain)) if kind is Kind.LONG_BINARY else plain


def row_hash(pieces: list[str]) -> str:
    return _md5(_encoded(",".join(pieces)))


def bucket(pieces: list[str], of: int) -> int:
    return crc32(_encoded(",".join(pieces))) % of


def meaning(kind: Kind, plain: Plain) -> Any:
    """Equal for values that are equal; hashable."""
    if plain is None:
        return None
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        number = float(plain)
        return _single(number) if kind is Kind.FLOAT else number
    if kind is Kind.JSON:
        try:
            return json.dumps(canonical(json.loads(plain)), sort_keys=True)
        except ValueError:
            return plain
    return plain


def double_text(number: float) -> str:
    """As MariaDB and MySQL print a DOUBLE."""
    if number == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, point = "".join(map(str, digits)), len(digits) + exponent
    minus = "-" if sign else ""
    if not (-14 <= point <= 15 or len(text) > point > 0):
        fraction = f".{text[1:]}" if text[1:] else ""
        return f"{minus}{text[0]}{fraction}e{point - 1}"
    if point <= 0:
        return f"{minus}0.{'0' * -point}{text}"
    fraction = f".{text[point:]}" if text[point:] else ""
    return f"{minus}{text[:point].ljust(point, '0')}{fraction}"


def _single(number: float) -> float:
    """The FLOAT nearest to it."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return number


def _integer(cell: str | int | float) -> str:
    if isinstance(cell, float) and not cell.is_integer():
        raise ValueError(f"{cell} is no integer")
    return str(int(cell))


def _decimal(text: str) -> str:
    try:
        plain = f"{Decimal(text):f}"
    except InvalidOperation as error:
        raise ValueError(f"{text[:80]!r} is no DECIMAL") from error
    plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
    return "0" if plain == "-0" else plain


def _stored(cell: str | int | float | bytes) -> str:
    if isinstance(cell, bytes):
        return cell.hex().upper()
    return double_text(cell) if isinstance(cell, float) else str(cell)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
