"""Findings for a person's eyes: whole at any width, the worst of each check first."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidelog.printable import printable
from tidelog_cli.doctor.finding import OK, UNKNOWN, WARNING, WRONG, Finding, Found

STYLES = {OK: "green", WARNING: "yellow", WRONG: "bold red", UNKNOWN: "cyan"}


def render(found: Found) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("", no_wrap=True)
    for column in ("looked at", "what was found"):
        table.add_column(column, overflow="fold")
    for finding in found.findings:
        style = STYLES[finding.verdict]
        table.add_row(Text(finding.verdict, style), _where(finding), _says(finding))
    return Group(table, Text(), summary(found))


def _where(finding: Finding) -> Text:
    about = printable(finding.about)
    return Text(f"{finding.check} {about}" if about else finding.check)


def _says(finding: Finding) -> Text:
    text = Text(printable(finding.says))
    if finding.hint:
        text.append(f"\n→ {printable(finding.hint)}", "bold" if finding.verdict == WRONG else "")
    return text


def summary(found: Found) -> Text:
    """One line."""
    said = ", ".join(_counted(found)) or "nothing was looked at"
    return Text(f"all well: {said}" if found.well else said, "green" if found.well else "red")


def _counted(found: Found) -> Iterator[str]:
    words = {OK: "ok", WARNING: "worth a look", WRONG: "wrong", UNKNOWN: "not to be seen from here"}
    for verdict, count in found.counts.items():
        if count:
            yield f"{count} {words[verdict]}"
