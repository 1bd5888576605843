"""What a row conflicts by: its unique keys' values, normalised.

Values that the upstream or the downstream may take for equal give the same normalised key. The
reverse need not hold: rows that share a key without need only lose a little parallelism. Where no
safe form is known (text beyond printable ASCII under a case-insensitive collation: expansions and
characters without weight; an expression) `Unsure` says so, and the table goes through one lane.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, final

from tidelog.downstream import Row, TableRule
from tidelog.schema.structure import ColumnStructure, KeyPart, TableStructure

_ANY: Final = 0
"""Any two values may be equal."""
_EXACT: Final = 1
_DECIMAL: Final = 2
_TIME: Final = 3
_BYTES: Final = 4
_PADDED: Final = 5
"""Text that is equal but for trailing spaces."""
_FOLDED: Final = 6
"""Text that is equal but for case and trailing spaces, if it is printable ASCII."""

_BASES: Final[dict[str, int]] = {
    "tinyint": _EXACT,
    "smallint": _EXACT,
    "mediumint": _EXACT,
    "int": _EXACT,
    "bigint": _EXACT,
    "year": _EXACT,
    "bit": _EXACT,
    "float": _EXACT,
    "double": _EXACT,
    "date": _EXACT,
    "datetime": _EXACT,
    "timestamp": _EXACT,
    "enum": _EXACT,
    "set": _EXACT,
    "decimal": _DECIMAL,
    "time": _TIME,
}
"""Of types that are no text. -0.0 and 0.0 are equal as Python's too."""

_UNICODE: Final = ("utf8mb4_", "utf8mb3_", "utf8_")
_UNICODE_CI: Final = frozenset(
    (
        "general_ci",
        "general_nopad_ci",
        "unicode_ci",
        "unicode_nopad_ci",
        "unicode_520_ci",
        "unicode_520_nopad_ci",
        "0900_ai_ci",
        "0900_as_ci",
        "0900_as_cs",
        *(
            f"uca1400_{pad}{a}_{c}"
            for pad in ("", "nopad_")
            for a in ("ai", "as")
            for c in ("ci", "cs")
        ),
    )
)
_OTHER_CI: Final = frozenset(("ascii_general_ci", "latin1_swedish_ci"))
"""Collations that tell all printable ASCII characters apart, but for their case. Not all do:
`gbk_chinese_ci` has Y = ~, `utf8mb4_roman_ci` I = J, `utf8mb4_lithuanian_ci` I = Y."""

_MOST: Final[dict[str, str]] = {"utf8mb4": "\U0010ffff", "utf8": "\uffff", "utf8mb3": "\uffff"}
"""The last character that a character set surely holds; in others U+007F. One that it does not
hold may become a question mark downstream."""


class Unsure(Exception):
    """What the value equals can't be told."""


@final
class Part:
    """A part of a key over a column."""

    __slots__ = ("column", "kind", "length", "most")

    def __init__(self, column: str, kind: int, length: int, most: str) -> None:
        self.column = column
        self.kind = kind
        self.length = length
        self.most = most

    def normal(self, row: Row, b64: Sequence[str]) -> Any:
        """None for NULL. Raises Unsure."""
        kind = self.kind
        try:
            value = row[self.column]
        except KeyError:
            raise Unsure from None
        if value is None or kind == _EXACT:
            return value
        if kind >= _PADDED:
            return self._text(_plain(value) if b64 and self.column in b64 else value)
        if kind == _DECIMAL:
            return _decimal(str(value))
        if kind == _TIME:
            return value.lstrip("-")
        if kind == _BYTES:
            raw = b64decode(value)
            return (raw[: self.length] if self.length else raw).rstrip(b"\0")
        raise Unsure

    def _text(self, text: str) -> str:
        if self.length:
            text = text[: self.length]
        if self.kind == _FOLDED:
            if not (text.isascii() and text.isprintable()):
                raise Unsure
            return text.lower().rstrip(" ")
        if not text.isascii() and max(text) > self.most:
            raise Unsure
        return text.rstrip(" ")


@final
class TableKeys:
    """The unique keys of a table's rows, the event's key first."""

    def __init__(self, structure: TableStructure, rule: TableRule) -> None:
        columns = {column.name: column for column in structure.columns}
        self._keys: list[list[Part]] = [
            [_part(part, columns, rule.collations) for part in key] for key in rule.keys
        ]
        self.several = len(self._keys) > 1
        self.signature = tuple(
            tuple((part.column, part.kind, part.length, part.most) for part in key)
            for key in self._keys
        )
        """Equal for two that give the same keys for every row."""
        first = self._keys[0] if self._keys else []
        by_event = sorted(part.column for part in first) == sorted(structure.key_columns)
        doubtful = any(part.kind == _ANY for key in self._keys for part in key)
        self.unsure = doubtful or not by_event
        """Of no row of the table the keys can be told."""
        self.plain = first[0].column if len(first) == 1 and first[0].kind == _EXACT else ""
        """The column whose bare value is the normalised first key, if that is so simple."""

    def first(self, row: Row, b64: Sequence[str]) -> Hashable:
        """The normalised value of the event's key. Raises Unsure."""
        parts = self._keys[0]
        if len(parts) == 1:
            return parts[0].normal(row, b64)  # type: ignore[no-any-return]
        return tuple([part.normal(row, b64) for part in parts])

    def all(self, row: Row, b64: Sequence[str]) -> list[Hashable]:
        """The normalised values of all keys, each with the key's number before it; a unique key
        with a NULL conflicts with nothing and is left out. Raises Unsure."""
        keys: list[Hashable] = [(0, self.first(row, b64))]
        for number in range(1, len(self._keys)):
            parts = self._keys[number]
            if len(parts) == 1:
                value = parts[0].normal(row, b64)
                if value is not None:
                    keys.append((number, value))
                continue
            values = [part.normal(row, b64) for part in parts]
            if None not in values:
                keys.append((number, *values))
        return keys


def _part(
    part: KeyPart, columns: Mapping[str, ColumnStructure], collations: Mapping[str, str]
) -> Part:
    column = columns.get(part.column)
    if part.expression or column is None:
        return Part(part.column, _ANY, 0, "")
    if column.generated and not column.generated_stored:
        return Part(part.column, _ANY, 0, "")
    kind, most = _kind(column, collations)
    if part.length and kind in (_EXACT, _DECIMAL, _TIME):
        # A cut of base64 is none of its bytes.
        kind = _BYTES if column.binary else _ANY
    return Part(part.column, kind, part.length, most)


def _kind(column: ColumnStructure, collations: Mapping[str, str]) -> tuple[int, str]:
    """How its values compare, and the last character of it that the downstream surely holds."""
    if column.name in collations and not (column.collation and collations[column.name]):
        return _ANY, ""
    if column.binary:
        # The server fills BINARY up with zero bytes; the same bytes are the same base64.
        return (_BYTES if column.base == "binary" else _EXACT), ""
    if column.base in _BASES:
        return _BASES[column.base], ""
    theirs = collations.get(column.name, column.collation)
    kinds = [_comparison(column.collation), _comparison(theirs)]
    if _ANY in kinds:
        return _ANY, ""
    return max(kinds), _MOST.get(theirs.partition("_")[0], "\x7f")


def _comparison(collation: str) -> int:
    if collation.endswith("_bin"):
        return _PADDED
    charset, _, rest = collation.partition("_")
    if collation in _OTHER_CI or (f"{charset}_" in _UNICODE and rest in _UNICODE_CI):
        return _FOLDED
    return _ANY


def _decimal(text: str) -> str:
    """Without the zeros that change nothing."""
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _plain(base64: str) -> str:
    """Text that an event holds in base64, because one of its images is not UTF-8."""
    try:
        return b64decode(base64).decode()
    except UnicodeDecodeError as error:
        raise Unsure from error
