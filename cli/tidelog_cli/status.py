"""`tidelog status`: nodes, positions and lags, for a person or a machine."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tidelog.messages import Nodes
from tidelog.timestamps import physical_ms
from tidelog_cli.connect import applied_ts, published_ts, resolved_ts

Report = dict[str, Any]


def report(found: Nodes, feed: str) -> Report:
    """The documented JSON form: `nodes` with the seed's field names, positions, lags in ms.

    A lag is the distance in time between two positions: what the Pumps have resolved, and what is
    published or applied. It is null while a position is not known.
    """
    resolved, published, applied = (
        resolved_ts(found),
        published_ts(found, feed),
        applied_ts(found, feed),
    )

    def lag(position: int) -> int | None:
        if not resolved or not position:
            return None
        return max(0, physical_ms(resolved) - physical_ms(position))

    return {
        "feed": feed,
        "nodes": [
            {
                "nodeId": n.nodeId,
                "kind": n.kind,
                "host": n.host,
                "state": n.state,
                "isAlive": n.isAlive,
                "score": n.score,
                "label": n.label,
                "maxCommitTS": n.maxCommitTS,
                "updateTS": n.updateTS,
                "resolvedTS": n.resolvedTS,
                "epoch": n.epoch,
                "detail": n.detail,
            }
            for n in sorted(found.nodes, key=lambda n: (n.kind, n.nodeId))
        ],
        "resolved_ts": resolved,
        "published_ts": published,
        "applied_ts": applied,
        "safe_point": found.safe_point,
        "lag_ms": {"published": lag(published), "applied": lag(applied)},
        "consumers": [
            {"name": c.name, "feed": c.feed, "commit_ts": c.commit_ts} for c in found.consumers
        ],
    }


def render(shown: Report) -> RenderableType:
    """A table a person can read."""
    table = Table(title=f"feed {shown['feed']}", title_justify="left")
    for column in ("node", "kind", "state", "position", "says"):
        table.add_column(column, overflow="fold")
    for node in shown["nodes"]:
        state = node["state"] if node["isAlive"] else f"{node['state']}, unreachable"
        colour = "green" if node["isAlive"] and node["state"] == "online" else "yellow"
        says = Text("\n".join(f"{k}: {v}" for k, v in sorted(node["detail"].items())))
        if "error" in node["detail"]:
            colour = "red"
            says.stylize("red")
        table.add_row(
            node["nodeId"], node["kind"], Text(state, colour), str(node["resolvedTS"]), says
        )
    lines = [f"resolved   {shown['resolved_ts']}"]
    for name, ms in shown["lag_ms"].items():
        lag = "lag unknown" if ms is None else f"{ms} ms behind"
        lines.append(f"{name:9}  {shown[f'{name}_ts']} ({lag})")
    return Group(table, Text("\n".join(lines)))
