"""Values in dump files, before and after their columns' types are known. Pure.

Files are read as UTF-8 with surrogates for other bytes, so binary values come back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Self

import msgspec

from tidelog.downstreams.literals import Kind
from tidelog.downstreams.writing import kind_of
from tidelog.schema.structure import ColumnStructure
from tidelog_backfill.snapshot.dump_lines import Lines

NULL = object()
"""The token, before a column's type is known."""
_ESCAPED = {"": re.compile(r"\\(.)", re.DOTALL)} | {
    quote: re.compile(rf"\\(.)|{quote}{quote}", re.DOTALL) for quote in ("'", '"')
}
"""By the quote around the text: the other one stands for itself."""
_MEANT = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}

Token = Any
"""Text, or NULL."""


class Digits(str):
    """A text of nothing else, in quotes: in a BIT column the bits themselves, not a number."""

    __slots__ = ()


class Order(msgspec.Struct, frozen=True):
    """Which of a row's `values` each column gets; -1 = none of them."""

    values: int
    places: tuple[int, ...] = ()
    """None: as they stand."""

    @classmethod
    def of_all(cls, columns: Sequence[ColumnStructure]) -> Self:
        return cls(len(columns))

    @classmethod
    def of(cls, named: Sequence[str], columns: Sequence[ColumnStructure], lines: Lines) -> Self:
        """Names are compared without case, as MySQL does. Raises Corrupt where values would have no
        place, and where a column's would have to be made up."""
        places = {name.lower(): at for at, name in enumerate(named)}
        if len(places) != len(named):
            raise lines.corrupt("names a column twice")
        known = {column.name.lower() for column in columns}
        for name in named:
            if name.lower() not in known:
                raise lines.corrupt(f"names {name}: the table has no such column that is filled")
        for column in columns:
            if column.name.lower() not in places and not _may_lack(column):
                raise lines.corrupt(f"does not name {column.name}, which is not NULL by default")
        return cls(len(named), tuple(places.get(column.name.lower(), -1) for column in columns))

    def row(self, tokens: list[Token], lines: Lines) -> list[Token]:
        """Raises Corrupt."""
        if len(tokens) != self.values:
            raise lines.corrupt(f"has a row of {len(tokens)} values for {self.values} columns")
        return [tokens[at] if at >= 0 else NULL for at in self.places] if self.places else tokens


def _may_lack(column: ColumnStructure) -> bool:
    return bool(column.generated) or (column.nullable and column.default is None)


def quoted(text: str) -> str:
    """What stood in quotes."""
    return Digits(text) if text.isdigit() else text


def unescaped(text: str, quote: str) -> str:
    """What stands between quotes in SQL, or without any (`quote` is "" then), as it is meant."""

    def meant(found: re.Match[str]) -> str:
        letter = found[1]
        return found[0][0] if letter is None else _MEANT.get(letter, letter)

    is_plain = "\\" not in text and (not quote or quote not in text)
    return text if is_plain else _ESCAPED[quote].sub(meant, text)


def converters(columns: Sequence[ColumnStructure]) -> list[Callable[[str], object]]:
    """Tokens -> what a server's driver gives (`values.DECODERS`)."""
    return [_converter(column) for column in columns]


def _converter(column: ColumnStructure) -> Callable[[str], object]:
    match kind_of(column):
        case Kind.BINARY:
            return _bytes
        case Kind.BIT:  # a YEAR is a number, within quotes as well
            return _bits if column.base == "bit" else int
        case Kind.FLOAT | Kind.DOUBLE:
            return float
        case Kind.NUMBER if column.base != "decimal":
            return int
    return _text


def _text(text: str) -> str:
    """A plain one: no encoder takes `Digits`. Raises ValueError."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ValueError("a text that is no UTF-8") from error
    return str(text)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _bits(text: str) -> int:
    """A number, or the bits themselves."""
    is_number = text.isdigit() and not isinstance(text, Digits)
    return int(text) if is_number else int.from_bytes(_bytes(text), "big")
