"""Nodes for a person's eyes, whole at any width: what has no room as a column stands in the last
one, by its name; where not even that fits, each node is a paragraph. Nothing is ever cut."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from tidelog.messages import ONLINE
from tidelog.node_form import Form
from tidelog.printable import printable
from tidelog.timestamps import moment

FIELDS = ("kind", "feed", "host", "lag", "max commit ts", "committed", "updated", "score", "label")
"""Those that are first get a column first."""
NODE, STATE, SAYS = "node", "state", "says"
GAP = 3
NARROWEST = 12
"""Of the node's name in a table; a longer one is folded, up to a quarter of the width."""
WIDEST = 40
"""Of any other column."""
SAYS_WIDTH = (24, 36)
"""Least width of the last column: to be a table at all, and to give another field a column."""


class NodeTable:
    """`forms` as of `node_forms`; `fields` of FIELDS, the most important first."""

    def __init__(self, forms: Iterable[Form], fields: Sequence[str] = FIELDS) -> None:
        self._rows = [cells(form) for form in forms]
        self._fields = [f for f in fields if any(row[f] for row in self._rows)]
        self._says = any(row[SAYS] for row in self._rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        chosen = self._columns(width)
        if chosen is None:
            yield from self._paragraphs()
        else:
            yield self._table(chosen, width)

    def _width(self, column: str, width: int) -> int:
        """What it takes where `width` is there for all."""
        most = max(cell_len(row[column]) for row in self._rows) if self._rows else 0
        if column == NODE:
            return max(len(NODE), min(most, max(NARROWEST, width // 4)))
        return max(len(column), most if column == STATE else min(most, WIDEST))

    def _columns(self, width: int) -> list[str] | None:
        """The fields that get a column; None if there is no room for a table."""
        least, comfortable = SAYS_WIDTH
        used = self._width(NODE, width) + GAP + self._width(STATE, width)
        whole = used + sum(GAP + self._width(f, width) for f in self._fields)
        if whole + (GAP + least if self._says else 0) <= width:
            return list(self._fields)
        if used + GAP + least > width:
            return None
        chosen: list[str] = []
        for field in self._fields:
            more = GAP + self._width(field, width)
            if used + more + GAP + comfortable <= width:
                chosen.append(field)
                used += more
        return chosen

    def _table(self, chosen: Sequence[str], width: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for column in (NODE, STATE, *chosen):
            at = self._width(column, width)
            justify: JustifyMethod = "right" if column in ("lag", "score") else "left"
            table.add_column(
                column, width=at, overflow="fold", justify=justify, no_wrap=column == STATE
            )
        rest = [f for f in self._fields if f not in chosen]
        if rest or self._says:
            table.add_column(SAYS, overflow="fold")
        for row in self._rows:
            shown = [Text(row[NODE]), _state(row), *(Text(row[f]) for f in chosen)]
            if rest or self._says:
                shown.append(_says(row, rest))
            table.add_row(*shown)
        return table

    def _paragraphs(self) -> RenderResult:
        for row in self._rows:
            yield Text(row[NODE], "bold", overflow="fold")
            yield Padding(_state(row), (0, 0, 0, 1))
            said = _says(row, self._fields)
            if said.plain:
                yield Padding(said, (0, 0, 0, 1))


def cells(form: Form) -> dict[str, str]:
    """What each column shows of a node; empty = not known."""
    lag = form["lag_ms"]
    commit = form["maxCommitTS"]
    label = sorted((form["label"] or {}).items())
    return {
        NODE: printable(form["nodeId"]),
        STATE: form["state"] + (", unreachable" if form["unreachable"] else ""),
        SAYS: "\n".join(
            f"{printable(k)}: {printable(v)}" for k, v in sorted(form["detail"].items())
        ),
        "kind": form["kind"],
        "feed": printable(form["feed"]),
        "host": printable(form["host"]),
        "score": str(form["score"]) if form["score"] else "",
        "label": ", ".join(f"{printable(k)}={printable(v)}" for k, v in label),
        "lag": "" if lag is None else duration(lag),
        "max commit ts": str(commit) if commit else "",
        "committed": moment(commit),
        "updated": moment(form["updateTS"]),
    }


def duration(ms: int) -> str:
    """As exact as an eye wants it."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def colour(state: str) -> str:
    return "green" if state == ONLINE else "yellow"


def _state(row: dict[str, str]) -> Text:
    return Text(row[STATE], colour(row[STATE]), overflow="fold")


def _says(row: dict[str, str], rest: Sequence[str]) -> Text:
    lines = [f"{field} {row[field]}" for field in rest if row[field]]
    text = Text("\n".join(lines), overflow="fold")
    for line in row[SAYS].splitlines():
        text.append("\n" if text.plain else "")
        text.append(line, "red" if line.startswith("error: ") else "")
    return text
