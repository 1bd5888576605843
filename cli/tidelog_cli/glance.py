"""A topology at a glance, as tall as its place: what is redrawn each second is never cut off at its
end. Each node is one line; who is in trouble goes before others where not all have room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from tidelog.messages import OFFLINE, ONLINE
from tidelog.node_form import Form
from tidelog.node_notes import notes
from tidelog.printable import printable
from tidelog.timestamps import moment
from tidelog_cli.node_table import colour, duration

LEAST_NODES = 3
"""Lines that notes leave to nodes."""
TALL = 1000
"""Of a place without an end: a file, a pipe."""
GAP = "  "


class Glance:
    """`shown`: a Report of `tidelog status`. `besides`: lines of the place that others take."""

    def __init__(self, shown: dict[str, Any], besides: int = 0) -> None:
        self._shown = shown
        self._besides = besides

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = console.height - 1 - self._besides if console.is_terminal else TALL
        yield from self.lines(console, options.max_width, room)

    def lines(self, console: Console, width: int, room: int) -> list[Text]:
        """At most `room` lines (LEAST_NODES and the positions at the least), none wider."""
        forms = [form for form in self._shown["nodes"] if form["state"] != OFFLINE]
        head = [_cut(line, width) for line in positions(self._shown)]
        left = max(LEAST_NODES + 1, room - len(head))
        told = [line for note in notes(forms) for line in Text(note, "yellow").wrap(console, width)]
        told = told[: max(1, left - LEAST_NODES - 1)]
        return [*head, *told, *_nodes(forms, width, left - len(told))]


def positions(shown: dict[str, Any]) -> list[Text]:
    """The feed, and how far each stage has come."""
    lines = [Text(f"feed {shown['feed']}", "italic")]
    resolved = shown["resolved_ts"]
    lines.append(_position("resolved", resolved, f"{moment(resolved)} UTC"))
    for name, ms in shown["lag_ms"].items():
        behind = "" if ms is None else f"{duration(ms)} behind"
        lines.append(_position(name, shown[f"{name}_ts"], behind))
    return lines


def _position(name: str, ts: int, said: str) -> Text:
    if not ts:
        return Text.assemble(f"{name:9}  ", ("not known yet", "dim"))
    return Text.assemble(f"{name:9}  ", str(ts), (f"{GAP}{said}" if said else "", "dim"))


def _nodes(forms: Sequence[Form], width: int, room: int) -> list[Text]:
    """A line each below a head, and one for those that have none."""
    rows = [_row(form) for form in forms]
    widths = [max([len(head), *(len(row[at]) for row in rows)]) for at, head in enumerate(_HEAD)]
    widths[0] = min(widths[0], max(12, width // 3))
    shown = rows
    if len(rows) > room - 1:
        kept = sorted(rows, key=lambda row: row[1] == ONLINE)[: max(1, room - 2)]
        shown = [row for row in rows if row in kept]
    lines = [_cut(Text(_joined(_HEAD, widths), "bold"), width)]
    for *row, says in shown:
        state = row[1]
        text = Text(_joined(row, widths))
        begin = widths[0] + len(GAP)
        text.stylize(colour(state), begin, begin + len(state))
        text.append(f"{GAP}{says}" if says else "", "red" if says.startswith("error: ") else "dim")
        lines.append(_cut(text, width))
    if len(shown) < len(rows):
        more = len(rows) - len(shown)
        lines.append(_cut(Text(f"{more} more: `tidelog nodes` shows all", "dim"), width))
    return lines


_HEAD = ("node", "state", "kind", "lag")


def _row(form: Form) -> tuple[str, str, str, str, str]:
    says = "; ".join(f"{printable(k)}: {printable(v)}" for k, v in sorted(form["detail"].items()))
    lag = "" if form["lag_ms"] is None else duration(form["lag_ms"])
    state = form["state"] + (", unreachable" if form["unreachable"] else "")
    return printable(form["nodeId"]), state, form["kind"], lag, says


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    fitted = []
    for at, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        short = cell if len(cell) <= width else cell[: width - 1] + "…"
        fitted.append(short.rjust(width) if at == len(_HEAD) - 1 else short.ljust(width))
    return GAP.join(fitted)


def _cut(text: Text, width: int) -> Text:
    text.truncate(width, overflow="ellipsis")
    return text
