"""Rows of dump files, as Dumpling, mydumper and mysqldump write them: a line of CSV is a row, one
of SQL some rows of an INSERT. Line ends within values are escaped there. Pure.

Files are read as UTF-8 with surrogates for other bytes, so binary values come back as they were.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tidelog.downstreams.literals import Kind
from tidelog.downstreams.writing import kind_of
from tidelog.errors import Corrupt
from tidelog.schema.structure import ColumnStructure

NULL = object()
"""The token, before a column's type is known."""
_INSERT = re.compile(
    r"(?:INSERT|REPLACE)\s+INTO\s+(?:`(?:[^`]|``)*+`\.)?`(?:[^`]|``)*+`\s*(?:\(([^)]*)\)\s*)?VALUES\s*",
    re.IGNORECASE,
)
_STRING = r"'(?:[^'\\]|\\.|'')*+'"
_VALUE = rf"(?:_\w+\s*|[xXbB])?{_STRING}|[^',()\s]++"
_ROW = re.compile(rf"\(\s*((?:{_VALUE})(?:\s*,\s*(?:{_VALUE}))*+)\s*\)")
_TOKEN = re.compile(_VALUE)
_BETWEEN = re.compile(r"[\s,;]*")
_NAME = re.compile(r"`((?:[^`]|``)+)`|([^`,\s]+)")
_FIELD = re.compile(r'"((?:[^"\\]|\\.|"")*+)"|([^,]*)')
_ESCAPED = {quote: re.compile(rf"\\(.)|{quote}{quote}", re.DOTALL) for quote in ("'", '"')}
"""By the quote around the text: the other one stands for itself."""
_MEANT = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_LEFT_OUT = ("/*", "--", "SET ", "LOCK ", "UNLOCK ", "BEGIN", "COMMIT")

Token = Any
"""Text, or NULL."""


class Digits(str):
    """A text of nothing else, in quotes: in a BIT column the bits themselves, not a number."""

    __slots__ = ()


def sql_rows(
    lines: Iterable[str], columns: Sequence[ColumnStructure], where: str
) -> Iterator[list[Token]]:
    """Values in the columns' order; those that a row leaves out are NULL. Raises Corrupt."""
    names = [column.name for column in columns]
    order: list[int] | None = None
    for number, line in enumerate(lines, 1):
        at = 0
        insert = _INSERT.match(line)
        if insert is not None:
            order, at = _order(insert[1], names), insert.end()
        elif not line.strip() or line.startswith(_LEFT_OUT):
            continue
        while (at := _end(_BETWEEN, line, at)) < len(line):
            row = _ROW.match(line, at)
            if row is None:
                raise Corrupt(f"{where}: line {number} can't be read from character {at + 1} on")
            try:
                found = [_sql(one) for one in _TOKEN.findall(row[1])]
            except ValueError as error:
                raise Corrupt(f"{where}: line {number}: {error}") from error
            yield _arranged(found, order, names, where)
            at = row.end()


def csv_rows(
    lines: Iterable[str], columns: Sequence[ColumnStructure], where: str
) -> Iterator[list[Token]]:
    """The same. A first line that holds names says their order."""
    names = [column.name for column in columns]
    order: list[int] | None = None
    for number, line in enumerate(lines, 1):
        text = line.rstrip("\r\n")
        if number == 1:
            text = text.removeprefix("\ufeff")
        if not text and len(names) > 1:
            continue
        fields = _fields(text, f"{where}: line {number}")
        if number == 1 and set(fields) == set(names):
            order = [fields.index(name) for name in names]
            continue
        yield _arranged(fields, order, names, where)


def _end(pattern: re.Pattern[str], line: str, at: int) -> int:
    found = pattern.match(line, at)
    return found.end() if found is not None else at


def _order(listed: str | None, names: Sequence[str]) -> list[int] | None:
    """Where each name stands in a statement's list; -1 = nowhere."""
    if listed is None:
        return None
    given = [(quoted or bare).replace("``", "`") for quoted, bare in _NAME.findall(listed)]
    return [given.index(name) if name in given else -1 for name in names]


def _arranged(
    tokens: list[Token], order: list[int] | None, names: Sequence[str], where: str
) -> list[Token]:
    if order is not None:
        return [tokens[at] if at >= 0 else NULL for at in order]
    if len(tokens) != len(names):
        raise Corrupt(f"{where}: a row has {len(tokens)} values, the table {len(names)} columns")
    return tokens


def _fields(line: str, where: str) -> list[Token]:
    fields: list[Token] = []
    at = 0
    while True:
        found = _FIELD.match(line, at)
        assert found is not None  # it matches nothing, too
        quoted, bare = found.groups()
        fields.append(_quoted(unescaped(quoted, '"')) if quoted is not None else _bare(bare))
        at = found.end()
        if at == len(line):
            return fields
        if line[at] != ",":
            raise Corrupt(f"{where} can't be read from character {at + 1} on")
        at += 1


def _bare(text: str) -> Token:
    return NULL if text == r"\N" else text


def _sql(token: str) -> Token:
    if token.upper() == "NULL":
        return NULL
    if not token.endswith("'"):
        if token[:2].lower() != "0x":
            return token
        return _raw(bytes.fromhex("0" * (len(token) % 2) + token[2:]))
    at = token.index("'")
    text = token[at + 1 : -1]
    match token[:at].lower():
        case "x":
            return _raw(bytes.fromhex(text))
        case "b":
            return _raw(int(text or "0", 2).to_bytes((len(text) + 7) // 8, "big"))
        case _:
            return _quoted(unescaped(text, "'"))


def _raw(data: bytes) -> str:
    return _quoted(data.decode("utf-8", "surrogateescape"))


def _quoted(text: str) -> str:
    return Digits(text) if text.isdigit() else text


def unescaped(text: str, quote: str) -> str:
    """What stands between quotes in SQL, as it is meant."""

    def meant(found: re.Match[str]) -> str:
        letter = found[1]
        return found[0][0] if letter is None else _MEANT.get(letter, letter)

    return _ESCAPED[quote].sub(meant, text) if "\\" in text or quote in text else text


def converters(columns: Sequence[ColumnStructure]) -> list[Callable[[str], object]]:
    """Tokens -> what a server's driver gives (`values.DECODERS`)."""
    return [_converter(column) for column in columns]


def _converter(column: ColumnStructure) -> Callable[[str], object]:
    match kind_of(column):
        case Kind.BINARY:
            return _bytes
        case Kind.BIT:
            return _bits
        case Kind.FLOAT | Kind.DOUBLE:
            return float
        case Kind.NUMBER if column.base != "decimal":
            return int
    return str


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _bits(text: str) -> int:
    """A number, or the bits themselves."""
    is_number = text.isdigit() and not isinstance(text, Digits)
    return int(text) if is_number else int.from_bytes(_bytes(text), "big")
