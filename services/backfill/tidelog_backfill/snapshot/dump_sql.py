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
_BETWEEN_STATEMENTS = re.compile(r"(?:[\s;]|--(?!\S).*)*+")
_COMMENT = r"/\*(?:[^*]|\*(?!/))*+\*/"
_PASSED_BY = re.compile(
    r"(?:SET|(?:UN)?LOCK|BEGIN|COMMIT)\b"
    rf"""(?:[^;'"`/#-]++|{_STRING}|"(?:[^"\\]|\\.)*+"|`[^`]*+`|{_COMMENT}|/(?!\*)|-(?!-))*+;""",
    re.IGNORECASE,
)
"""A statement without rows, which ends on its line, behind strings and comments with a ';'."""
_ROWS_WITHIN = re.compile(r"/\*[MT]?!(?:\d+|\[[^]/]*\])?\s*(?:INSERT|REPLACE)\b", re.IGNORECASE)
"""A comment that a server carries out."""
_ZONE = re.compile(r"""\bTIME_ZONE\s*=\s*['"]([^'"]*)['"]""", re.IGNORECASE)
_UTC = frozenset(("+00:00", "-00:00", "+0:00", "UTC"))
_OF_NUMBERS = frozenset("+-.0123456789")
"""What a value without quotes begins with, if it is not NULL."""


def sql_rows(lines: Lines, table: TableStructure) -> Iterator[list[Token]]:
    """Values in the order of `stored`; those of generated columns and of those with no default that
    a statement leaves out are NULL. Raises Corrupt."""
    columns = stored(table)
    order: Order | None = None  # of the statement that rows are of
    for line in lines:
        at = 0
        while (at := _next(line, at, order)) < len(line):
            if order is None:
                insert = _INSERT.match(line, at)
                if insert is None:
                    line, at = _passed_by(line, at, columns, lines)
                else:
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


def _passed_by(
    line: str, at: int, columns: Sequence[ColumnStructure], lines: Lines
) -> tuple[str, int]:
    """A comment, or a statement without rows; the line where it ends, and the place behind it.
    Raises Corrupt for anything else: it may have rows."""
    if line.startswith("/*", at):
        text, line, end = _comment(line, at, lines)
    else:
        found = _PASSED_BY.match(line, at)
        if found is None:
            raise lines.unreadable(at)
        text, end = found[0], found.end()
    if _ROWS_WITHIN.search(text):
        raise lines.corrupt("has rows in a comment")
    _check_zone(text, columns, lines)
    return line, end


def _comment(line: str, at: int, lines: Lines) -> tuple[str, str, int]:
    """Its text; the line where it ends, and the place behind it. Raises Corrupt."""
    parts: list[str] = []
    end = line.find("*/", at + 2)
    while end < 0:
        parts.append(line[at:])
        line, at = lines.next(), 0
        if not line:
            raise lines.corrupt("is the last one, and its comment does not end there")
        end = line.find("*/")
    end += len("*/")
    return "".join([*parts, line[at:end]]), line, end


def _check_zone(text: str, columns: Sequence[ColumnStructure], lines: Lines) -> None:
    """The stream's TIMESTAMPs are in UTC. Raises Corrupt for those of another zone."""
    others = [zone for zone in _ZONE.findall(text) if zone.upper() not in _UTC]
    if others and any(column.base == "timestamp" for column in columns):
        raise lines.corrupt(f"sets the time zone {others[0]}, and TIMESTAMPs are taken in UTC only")


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
