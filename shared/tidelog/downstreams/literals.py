"""SQL literals, names and conditions for MySQL-speaking servers, from the change stream's forms.

We build them ourselves: a statement of hundreds of rows then costs one join and one round trip
(limits.md: twice as fast as a driver's parameters). Values are right in any session that speaks
utf8mb4 (see `row_text`); the text of DDL needs NO_BACKSLASH_ESCAPES, which our sessions have.
"""

from __future__ import annotations

from base64 import b64decode
from enum import Enum
from typing import Any

from msgspec import json

from tidelog.downstreams import row_text
from tidelog.downstreams.row_text import (
    bytes_literal,
    exact_float,
    json_text,
    number_literal,
    text_literal,
)

JSON_DEPTH = 32
"""MariaDB's functions take no document that is nested so deep."""


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


CODES = {
    Kind.NUMBER: row_text.NUMBER,
    Kind.BIT: row_text.NUMBER,
    Kind.FLOAT: row_text.FLOAT,
    Kind.DOUBLE: row_text.DOUBLE,
    Kind.TEXT: row_text.TEXT,
    Kind.TIME: row_text.TEXT,
    Kind.BINARY: row_text.BINARY,
    Kind.JSON: row_text.JSON,
}


def quote(text: str) -> str:
    """A string literal in DDL and in our own tables, under NO_BACKSLASH_ESCAPES."""
    return "'" + text.replace("'", "''") + "'"


def name(identifier: str) -> str:
    """A quoted identifier."""
    return "`" + identifier.replace("`", "``") + "`"


def table_name(db: str, table: str) -> str:
    return f"{name(db)}.{name(table)}"


def matches(
    kind: Kind,
    column: str,
    value: Any,
    marked: bool,
    *,
    native_json: bool,
    json_equals: bool = False,
) -> str:
    """A condition that is true for exactly the rows whose `column` (quoted) holds `value`.

    Null-safe. Text is compared byte by byte, whatever its character set, collation and padding;
    FLOAT by its exact value; JSON as such where the server has the type (`native_json`), else as
    our text, which is what it stores, or as what is equal to it: a first copy has the source's
    text of it, and a changed column what was there (`json_equals`: the server can tell). MariaDB's
    JSON_EQUALS takes NULL for equal to anything, and warns of what is nested deeper, which strict
    mode takes for an error: it sees neither.
    """
    if value is None:
        return f"{column} IS NULL"
    if kind is Kind.FLOAT:
        return f"{column} <=> {exact_float(float(value))}"
    if kind is Kind.NUMBER:
        return f"{column} <=> {number_literal(value)}"
    if kind is Kind.BIT:
        return f"{column} + 0 <=> {number_literal(value)}"
    if kind is Kind.DOUBLE:
        return f"{column} <=> {float(value)!r}"
    if kind is Kind.BINARY:
        return f"{column} <=> {bytes_literal(value)}"
    if kind is Kind.JSON:
        text = text_literal(b64decode(value).decode() if marked else json_text(value))
        if native_json:
            return f"{column} <=> CAST({text} AS JSON)"
        same = f"CAST({column} AS CHAR) <=> {text} COLLATE utf8mb4_bin"
        if not json_equals:
            return same
        depth = _depth(json.decode(b64decode(value)) if marked else value)
        if depth >= JSON_DEPTH:
            return same
        equal = f"IF(JSON_VALID({column}),JSON_EQUALS({column},{text}),0)"
        # It reads a mere number beyond its end. The text of all others is in a statement once.
        return equal if depth else f"({same} OR {equal})"
    if kind is Kind.TIME:
        return f"{column} <=> {text_literal(value)}"
    raw = b64decode(value) if marked else value.encode()
    return f"CAST(CONVERT({column} USING utf8mb4) AS BINARY) <=> x'{raw.hex()}'"


def _depth(value: Any) -> int:
    """How deep a document's lists and objects are nested."""
    if isinstance(value, dict):
        value = list(value.values())
    return 1 + max(map(_depth, value), default=0) if isinstance(value, list) else 0
