"""What kind of difference it is, when the downstream does not hold what the source holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tidelog.sim.checker import Findings
from tidelog.workload.compare import row_text
from tidelog.workload.source import Contents, TableContents

Row = dict[str, object]


def name_differences(
    findings: Findings,
    source: Contents,
    tables: Iterable[tuple[str, str]],
    held: Callable[[str, str], list[Row] | None],
) -> None:
    """By table; `tables` are all that the downstream has. Rows that only the source has are a loss,
    one held more often than the source has it is a duplicate; everything else (other values, a row
    or a table that should be gone) is neither."""
    for db, name in sorted({*tables} - {(table.db, table.table) for table in source.tables}):
        findings.other.append(f"{db}.{name}: upstream has no such table")
    for table in source.tables:
        name = f"{table.db}.{table.table}"
        found = held(table.db, table.table)
        if found is None:
            findings.other.append(f"{name}: the table is missing")
        elif found and found[0].keys() != {column.name.text for column in table.columns}:
            findings.other.append(f"{name}: columns {sorted(found[0])}")
        else:
            _name_rows(findings, name, table, found)


def _name_rows(findings: Findings, name: str, table: TableContents, found: list[Row]) -> None:
    columns = {column.name.text: column for column in table.columns}
    wanted = Counter(row_text(columns, row) for row in table.rows)
    have = Counter(row_text(columns, row) for row in found)
    missing, surplus = wanted - have, have - wanted
    doubled = {text: times for text, times in surplus.items() if text in wanted}
    strange = {text: times for text, times in surplus.items() if text not in wanted}
    if doubled:
        findings.duplicates.append(f"{name}: {_said(doubled)} more often than upstream")
    if strange:
        lacks = f" instead of {_said(missing)}" if missing else ""
        findings.other.append(f"{name}: {_said(strange)} not upstream's{lacks}")
    elif missing:
        findings.loss.append(f"{name}: {_said(missing)} missing")


def _said(rows: dict[str, int]) -> str:
    return f"{sum(rows.values())} rows, first {min(rows)},"
