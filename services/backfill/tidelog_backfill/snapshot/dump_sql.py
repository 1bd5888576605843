"""Rows of SQL, as Dumpling, mydumper and mysqldump write it: a line holds some rows of an INSERT,
whole, as line ends within values are escaped. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_backfill.snapshot.dump_lines import Lines
from tidelog_backfill.snapshot.dump_rows import NULL, Order, Token, quoted, unescaped
from tidelog_backfill.snapshot.values import stored

_NAME = r"(?:`(?:[^`]|``)++`|[^`\s.,;()]++)"
_INSERT = re.compile(
    r"(?:INSERT(?:\s+IGNORE)?|REPLACE)\s+INTO\s+"
    rf"(?:{_NAME}\s*\.\s*)?({_NAME})\s*(?:\((\s*{_NAME}(?:\s*,\s*{_NAME})*+\s*)\)\s*)?VALUES\s*",
    re.IGNORECASE,
)
_EACH_NAME = re.compile(_NAME)
_STRING = r"'(?:[^'\\]|\\.|'')*+'"
_VALUE = rf"(?:_\w+\s*|[xXbB])?{_STRING}|[^',()\s]++"
_ROW = re.compile(rf"\(\s*((?:{_VALUE})(?:\s*,\s*(?:{_VALUE}))*+)\s*\)")
_TOKEN = re.compile(_VALUE)
_BETWEEN_ROWS = re.compile(r"[\s,]*")
_BETWEEN_STATEMENTS = re.compile(r"[\s;]*")
_LEFT_OUT = ("/*", "--", "SET ", "LOCK ", "UNLOCK ", "BEGIN", "COMMIT")
_ZONE = re.compile(r"""^(?!--).*?\bTIME_ZONE\s*=\s*['"]([^'"]*)['"]""", re.IGNORECASE)
_UTC = frozenset(("+00:00", "-00:00", "+0:00", "UTC"))
_OF_NUMBERS = frozenset("+-.0123456789")
"""What a value without quotes begins with, if it is not NULL."""


def sql_rows(lines: Lines, table: TableStructure) -> Iterator[list[Token]]:
    """Values in the order of `stored`; those of generated columns and of those with no default that
    a statement leaves out are NULL. Raises Corrupt."""
    columns = stored(table)
    order: Order | None = None  # of the statement that rows are of
    for line in lines:
        if order is None and (not line.strip() or line.startswith(_LEFT_OUT)):
            _check_zone(line, columns, lines)
            continue
        at = 0
        while (at := _next(line, at, order)) < len(line):
            if order is None:
                insert = _INSERT.match(line, at)
                if insert is None:
                    raise lines.unreadable(at)
                order, at = _order(insert, table.name, columns, lines), insert.end()
            elif line[at] == ";":
                order = None
            else:
                row = _ROW.match(line, at)
                if row is None:
                    raise lines.unreadable(at)
                yield order.row(_tokens(row[1], lines), lines)
                at = row.end()
    if order is not None:
        raise lines.corrupt("is the last one, and its statement does not end there")


def _check_zone(line: str, columns: Sequence[ColumnStructure], lines: Lines) -> None:
    """The stream's TIMESTAMPs are in UTC. Raises Corrupt for those of another zone."""
    found = _ZONE.match(line)
    if found is None or found[1].upper() in _UTC:
        return
    if any(column.base == "timestamp" for column in columns):
        raise lines.corrupt(f"sets the time zone {found[1]}, and TIMESTAMPs are taken in UTC only")


def _next(line: str, at: int, order: Order | None) -> int:
    """Where a statement or a row begins."""
    found = (_BETWEEN_STATEMENTS if order is None else _BETWEEN_ROWS).match(line, at)
    return found.end() if found is not None else at


def _order(
    insert: re.Match[str], name: str, columns: Sequence[ColumnStructure], lines: Lines
) -> Order:
    """Raises Corrupt."""
    into = _unquoted(insert[1])
    if into.lower() != name.lower():
        raise lines.corrupt(f"inserts into {into}: the file is one of {name}")
    if insert[2] is None:
        return Order.of_all(columns)
    return Order.of([_unquoted(one) for one in _EACH_NAME.findall(insert[2])], columns, lines)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


def _tokens(row: str, lines: Lines) -> list[Token]:
    """Raises Corrupt."""
    try:
        return [_token(one) for one in _TOKEN.findall(row)]
    except ValueError as error:
        raise lines.corrupt(f"has a value that is none: {error}") from error


def _token(text: str) -> Token:
    """Raises ValueError."""
    if text.upper() == "NULL":
        return NULL
    if not text.endswith("'"):
        if text[:2].lower() == "0x":
            return _raw(bytes.fromhex("0" * (len(text) % 2) + text[2:]))
        if text[0] not in _OF_NUMBERS:
            raise ValueError(text)
        return text
    at = text.index("'")
    value = text[at + 1 : -1]
    match text[:at].lower():
        case "x":
            return _raw(bytes.fromhex(value))
        case "b":
            return _raw(int(value or "0", 2).to_bytes((len(value) + 7) // 8, "big"))
        case _:
            return quoted(unescaped(value, "'"))


def _raw(data: bytes) -> str:
    return quoted(data.decode("utf-8", "surrogateescape"))
