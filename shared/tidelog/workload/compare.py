"""Is a downstream equal to the source? Row by row, by the rules of the fixtures' README."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from decimal import Context, Decimal, InvalidOperation

import msgspec

from tidelog.rows.values import INT_TYPES, T_BIT, T_DECIMAL, T_DOUBLE, T_FLOAT, T_JSON
from tidelog.schema.model import ColumnInfo
from tidelog.workload.ledger import canonical
from tidelog.workload.source import Contents, TableContents

Fetch = Callable[[str, str], Awaitable[list[dict[str, object]]]]
"""(db, table) -> rows by column name, values in the JSON forms of design section 5 (binary columns
base64). Raises LookupError for a table that is not there."""

_EXACT = Context(prec=100)
"""DECIMAL has up to 65 digits; the default context would round at 28."""
SHOWN = 5
"""Differing rows named per table."""


class Verdict(msgspec.Struct, frozen=True):
    """`differences` has a sentence for each kind of difference met, at most SHOWN rows a table."""

    equal: bool
    tables: int
    rows: int
    differences: list[str]


async def compare(source: Contents, fetch: Fetch) -> Verdict:
    """Every table of the source against what `fetch` gives; order of rows does not matter."""
    differences: list[str] = []
    rows = 0
    for table in source.tables:
        name = f"{table.db}.{table.table}"
        try:
            found = await fetch(table.db, table.table)
        except LookupError:
            differences.append(f"{name}: the table is missing")
            continue
        rows += len(table.rows)
        differences.extend(f"{name}: {line}" for line in _differences(table, found))
    return Verdict(not differences, len(source.tables), rows, differences)


def _differences(table: TableContents, found: list[dict[str, object]]) -> list[str]:
    columns = {column.name.text: column for column in table.columns}
    lines: list[str] = []
    if found and found[0].keys() != columns.keys():
        return [f"columns {sorted(found[0])} instead of {sorted(columns)}"]
    wanted = Counter(row_text(columns, row) for row in table.rows)
    have = Counter(row_text(columns, row) for row in found)
    for word, left in (("missing", wanted - have), ("too much", have - wanted)):
        lines.extend(
            f"{word}: {text} ({times} times)" for text, times in sorted(left.items())[:SHOWN]
        )
        if len(left) > SHOWN:
            lines.append(f"{word}: {len(left) - SHOWN} more rows")
    return lines


def row_text(columns: Mapping[str, ColumnInfo], row: Mapping[str, object]) -> str:
    """A text equal for rows that are equal."""
    values = {name: comparable(columns[name], value) for name, value in row.items()}
    return msgspec.json.encode(values, order="sorted").decode()


def comparable(column: ColumnInfo, value: object) -> object:
    """Numbers as numbers, FLOAT to 6 digits, DECIMAL by value, JSON by value, the rest as text."""
    tp = column.type.Tp
    if value is None:
        return None
    if tp == T_JSON:
        return canonical(value)
    if tp in INT_TYPES or tp == T_BIT:
        return str(int(str(value)))
    if tp == T_FLOAT:
        return f"{float(str(value)):.6g}"
    if tp == T_DOUBLE:
        return repr(float(str(value)))
    if tp == T_DECIMAL:
        try:
            number = Decimal(str(value)).normalize(_EXACT)
        except InvalidOperation:
            return str(value)
        return format(number, "f") if number else "0"
    return str(value)
