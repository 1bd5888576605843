"""SQL literals for MySQL-speaking servers, made from the change stream's JSON forms.

We build them ourselves: a statement of hundreds of rows then costs one join and one round trip
(limits.md: twice as fast as a driver's parameters). The session has NO_BACKSLASH_ESCAPES, so that a
quote is the only character that needs care, and utf8mb4.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Callable
from enum import Enum
from typing import Any

import msgspec

Encode = Callable[[Any], str]


class Kind(Enum):
    """What a column's values look like in the stream, and therefore as a literal."""

    NUMBER = "number"
    """Integers, and DECIMAL as text: written bare."""
    BIT = "bit"
    """BIT and YEAR, which are integers but compare as such only in an expression."""
    FLOAT = "float"
    DOUBLE = "double"
    TEXT = "text"
    """Character strings, ENUM and SET."""
    TIME = "time"
    BINARY = "binary"
    JSON = "json"


def quote(text: str) -> str:
    """A string literal under NO_BACKSLASH_ESCAPES."""
    return "'" + text.replace("'", "''") + "'"


def name(identifier: str) -> str:
    """A quoted identifier."""
    return "`" + identifier.replace("`", "``") + "`"


def table_name(db: str, table: str) -> str:
    return f"{name(db)}.{name(table)}"


def hex_literal(base64: str) -> str:
    return f"x'{b64decode(base64).hex()}'"


def encode_marked(value: Any) -> str:
    """A value of a BINARY column, or of text that is not UTF-8: base64 in the stream."""
    return "NULL" if value is None else hex_literal(value)


def encode_marked_json(value: Any) -> str:
    return "NULL" if value is None else quote(b64decode(value).decode())


def _number(value: Any) -> str:
    return "NULL" if value is None else str(value)


def _float(value: Any) -> str:
    """The shortest text, but for the largest values, whose shortest text is above the range."""
    if value is None:
        return "NULL"
    return str(value) if -3e38 < value < 3e38 else exact_float(value)


def _text(value: Any) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _plain(value: Any) -> str:
    """Times: their text has no quote in it."""
    return "NULL" if value is None else f"'{value}'"


def _json(value: Any) -> str:
    return "NULL" if value is None else quote(json_text(value))


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


ENCODERS: dict[Kind, Encode] = {
    Kind.NUMBER: _number,
    Kind.BIT: _number,
    Kind.FLOAT: _float,
    Kind.DOUBLE: _number,
    Kind.TEXT: _text,
    Kind.TIME: _plain,
    Kind.BINARY: encode_marked,
    Kind.JSON: _json,
}
MARKED: dict[Kind, Encode] = {
    kind: encode_marked_json if kind is Kind.JSON else encode_marked for kind in Kind
}
"""Encoders of values whose column an event names in `b64`."""


def exact_float(value: float) -> str:
    """A FLOAT's stored value as a DOUBLE literal: the column equals that, not its shortest text."""
    return repr(float(struct.unpack("<f", struct.pack("<f", float(value)))[0]))


def matches(kind: Kind, column: str, value: Any, marked: bool) -> str:
    """A condition that is true for exactly the rows whose `column` (quoted) holds `value`.

    Null-safe. Text is compared byte by byte, whatever its character set, collation and padding;
    FLOAT by its exact value; JSON as the server's own text of it (MariaDB stores our text).
    """
    if value is None:
        return f"{column} IS NULL"
    if kind is Kind.FLOAT:
        return f"{column} <=> {exact_float(value)}"
    if kind is Kind.NUMBER:
        return f"{column} <=> {value}"
    if kind is Kind.BIT:
        return f"{column} + 0 <=> {value}"
    if kind is Kind.DOUBLE:
        return f"{column} <=> {float(value)!r}"
    if kind is Kind.BINARY:
        return f"{column} <=> {hex_literal(value)}"
    if kind is Kind.JSON:
        text = b64decode(value).decode() if marked else json_text(value)
        return f"CAST({column} AS CHAR) <=> {quote(text)} COLLATE utf8mb4_bin"
    if kind is Kind.TIME:
        return f"{column} <=> '{value}'"
    raw = b64decode(value) if marked else value.encode()
    return f"CAST(CONVERT({column} USING utf8mb4) AS BINARY) <=> x'{raw.hex()}'"
