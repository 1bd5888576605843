"""What `tidelog verify` says: the documented JSON form, and the terminal's table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.table import Table
from rich.text import Text

from tidelog_cli.verify.kinds import Plain

EQUAL, DIFFERS, PROBLEM = "equal", "differs", "problem"
CUT = 120
"""Characters of a value on the terminal."""


class Difference(msgspec.Struct, frozen=True):
    """`what`: missing (downstream has no such row), extra, changed. `key` by column; the whole row
    where the table has none. `columns`: of a changed row, source's and downstream's value."""

    what: str
    key: dict[str, Plain]
    columns: dict[str, tuple[Plain, Plain]] = {}


class TableResult(msgspec.Struct, frozen=True):
    """`result`: equal, differs, or problem: then `problem` says why it was not compared.
    `differing`: how many rows; `differences` are the first of them."""

    source: str
    downstream: str
    result: str
    source_rows: int = 0
    downstream_rows: int = 0
    chunks: int = 0
    differing: int = 0
    problem: str = ""
    notes: Sequence[str] = ()
    differences: Sequence[Difference] = ()


class Report(msgspec.Struct, frozen=True):
    """The documented JSON form. `commit_ts`: where the downstream stands, 0 if nothing tells."""

    equal: bool
    source: str
    source_as_of: str
    downstream: str
    downstream_as_of: str
    commit_ts: int
    notes: list[str]
    tables: list[TableResult]


def results_table(report: Report) -> Table:
    found = Table("table", "result", "rows", "chunks", "differing rows", "remark")
    for one in report.tables:
        style = "green" if one.result == EQUAL else "red"
        name = one.source or one.downstream
        if one.source and one.source != one.downstream:
            name += f" → {one.downstream}"
        rows = str(one.source_rows)
        if one.source_rows != one.downstream_rows:
            rows += f" and {one.downstream_rows}"
        remark = "; ".join(filter(None, (one.problem, *one.notes)))
        cells = (name, Text(one.result, style), rows, str(one.chunks), str(one.differing), remark)
        found.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in cells))
    return found


def lines(report: Report) -> Iterator[str]:
    """The first differences, then what to know about the whole."""
    for table in report.tables:
        for one in table.differences:
            key = ", ".join(f"{name} {_cut(value)}" for name, value in one.key.items())
            line = f"{table.source}: {one.what}: {key}"
            for name, (mine, theirs) in one.columns.items():
                line += f"; {name} is {_cut(mine)}, downstream {_cut(theirs)}"
            yield line
        if table.differing > len(table.differences):
            yield f"{table.source}: {table.differing - len(table.differences)} more rows differ"
    yield f"source: {report.source}, {report.source_as_of}"
    at = f", which stands at commit_ts {report.commit_ts}" if report.commit_ts else ""
    yield f"downstream: {report.downstream}, {report.downstream_as_of}{at}"
    yield from report.notes


def _cut(value: Plain) -> str:
    text = "NULL" if value is None else repr(value)
    return text if len(text) <= CUT else f"{text[:CUT]}…"
