"""Rows of CSV, as Dumpling and mydumper write it: NULL is \\N, and values have MySQL's escapes, in
quotes and without them; one in quotes may go on over line ends. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_backfill.snapshot.dump_lines import Lines
from tidelog_backfill.snapshot.dump_rows import NULL, Order, Token, quoted, unescaped
from tidelog_backfill.snapshot.values import stored

_REST = r'((?:[^"\\]|\\.|"")*+)"'
"""Up to the quote that closes a value."""
_FIELD = re.compile(rf'"{_REST}|((?!")(?:[^,\\]|\\.)*+)', re.DOTALL)
CUT = "is the last one and has no line end: its last value may be cut; add one if it is whole"
_CLOSED = re.compile(_REST, re.DOTALL)


def csv_rows(lines: Lines, table: TableStructure) -> Iterator[list[Token]]:
    """Values in the order of `stored`. A first line that holds names says which the file has.
    Raises Corrupt."""
    columns = stored(table)
    order = Order.of_all(columns)
    for line in lines:
        is_first = lines.number == 1
        text = line.removeprefix("\ufeff") if is_first else line
        if not text.rstrip("\r\n") and len(columns) > 1:
            continue
        fields = _fields(text, lines)
        if is_first and _are_names(fields, columns):
            order = Order.of(fields, columns, lines)
            continue
        yield order.row(fields, lines)


def _are_names(fields: Sequence[Token], columns: Sequence[ColumnStructure]) -> bool:
    """A row of as many values as there are columns may hold some of their names, too."""
    if NULL in fields:
        return False
    given = {field.lower() for field in fields}
    known = {column.name.lower() for column in columns}
    return given == known or (len(fields) != len(columns) and given <= known)


def _fields(line: str, lines: Lines) -> list[Token]:
    """Of the row that begins with the line."""
    fields: list[Token] = []
    at, end = 0, _end(line)
    while True:
        found = _FIELD.match(line, at, end)
        if found is None:
            text, line, at = _over_lines(line[at + 1 :], lines)
            fields.append(quoted(unescaped(text, '"')))
            end = _end(line)
        else:
            text, bare = found.groups()
            fields.append(_bare(bare) if text is None else quoted(unescaped(text, '"')))
            at = found.end()
            if at == len(line) and text is None:
                raise lines.corrupt(CUT)
        if at == end:
            return fields
        if line[at] != ",":
            raise lines.unreadable(at)
        at += 1


def _end(line: str) -> int:
    return len(line.rstrip("\r\n"))


def _over_lines(begun: str, lines: Lines) -> tuple[str, str, int]:
    """A value that is not closed on its line; the line where it is, and the place behind it."""
    parts = [begun]
    while line := lines.more():
        closed = _CLOSED.match(line)
        if closed is not None:
            return "".join([*parts, closed[1]]), line, closed.end()
        parts.append(line)
    raise lines.corrupt("begins a value in quotes that the file ends within")


def _bare(text: str) -> Token:
    return NULL if text == r"\N" else unescaped(text, "")
