"""Rows as SQL text, `(1,'a',NULL)`: what the Applier spends most of its time on. Pure.

A wheel has this module compiled by mypyc, so it stays free of what that doesn't take. The text
means the same in every session that speaks utf8mb4: whatever holds a backslash is written as hex,
so that nobody's NO_BACKSLASH_ESCAPES decides where a value ends.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from struct import pack, unpack
from typing import Any, Final

import msgspec

NUMBER: Final = 0
"""Integers, and DECIMAL as text: written bare."""
TEXT: Final = 1
"""Character strings, SET, times."""
ENUM: Final = 2
"""Of elements among which the empty text is not: that is the error value."""
BINARY: Final = 3
DOUBLE: Final = 4
FLOAT: Final = 5
EXACT_FLOAT: Final = 6
"""A FLOAT that is compared: the column equals the DOUBLE of its stored value, not its shortest
text."""
JSON: Final = 7

ABSENT: Final = object()


class RowText:
    """The text of rows of one table: of all its written columns, or of its key's."""

    def __init__(self, columns: Sequence[tuple[str, int]], opening: str, closing: str) -> None:
        self._columns: list[tuple[str, int]] = list(columns)
        self._opening = opening
        self._closing = closing
        self._lenient = False

    def take(
        self, images: Sequence[Any], start: int, max_rows: int, max_chars: int
    ) -> tuple[str, int, bool]:
        """The rows from `start` on that fit into one statement, at least one: their text, where
        the next statement begins, and whether it needs a lenient session: for an ENUM's error
        value, or for a column that the row leaves out because the upstream is dropping it.

        Raises ValueError for a number that is none.
        """
        texts: list[str] = []
        chars = 0
        at = start
        end = min(len(images), start + max_rows)
        lenient = False
        while at < end:
            self._lenient = False
            image = images[at]
            text = self._text(image.row, image.b64)
            chars += len(text) + 1
            if texts and chars > max_chars:
                break
            lenient = lenient or self._lenient
            texts.append(text)
            at += 1
        return ",".join(texts), at, lenient

    def _text(self, row: dict[str, Any], marked: Sequence[str]) -> str:
        parts: list[str] = []
        for name, code in self._columns:
            value = row.get(name, ABSENT)
            if value is None:
                parts.append("NULL")
            elif value is ABSENT:
                self._lenient = True
                parts.append("DEFAULT")
            elif marked and name in marked:
                parts.append(marked_literal(code, value))
            elif code == TEXT:
                parts.append(text_literal(value))
            elif code == NUMBER:
                parts.append(number_literal(value))
            else:
                if code == ENUM and value == "":
                    self._lenient = True
                parts.append(literal(code, value))
        return self._opening + ",".join(parts) + self._closing


def text_literal(text: str) -> str:
    """Character data, whatever the column's character set: the server converts it."""
    if "\\" in text:
        return f"_utf8mb4 x'{text.encode().hex()}'"
    if "'" in text:
        text = text.replace("'", "''")
    return f"'{text}'"


def number_literal(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    text = str(value)
    float(text)  # what is no number must not become a piece of SQL
    return text


def bytes_literal(base64: str) -> str:
    return f"x'{b64decode(base64).hex()}'"


def float_literal(code: int, value: float) -> str:
    """The shortest text; but for the largest FLOATs, whose shortest text is above the range."""
    number = float(value)
    if code == EXACT_FLOAT or (code == FLOAT and not -3e38 < number < 3e38):
        return exact_float(number)
    return repr(number)


def exact_float(value: float) -> str:
    """A FLOAT's stored value as a DOUBLE literal."""
    return repr(float(unpack("<f", pack("<f", value))[0]))


def json_text(value: Any) -> str:
    return str(msgspec.json.encode(value), "utf-8")


def literal(code: int, value: Any) -> str:
    """Of a value that is not NULL and not marked as base64."""
    if code == NUMBER:
        return number_literal(value)
    if code == BINARY:
        return bytes_literal(value)
    if code == JSON:
        return text_literal(json_text(value))
    if code in (DOUBLE, FLOAT, EXACT_FLOAT):
        return float_literal(code, value)
    return text_literal(value)


def marked_literal(code: int, value: str) -> str:
    """Of a value that an event gives as base64. Text is marked whenever either image of its event
    is not UTF-8, so this one may be."""
    if code == BINARY:
        return bytes_literal(value)
    try:
        return text_literal(str(b64decode(value), "utf-8"))
    except UnicodeDecodeError:
        return bytes_literal(value)
