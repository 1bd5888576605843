"""`tidelog status`: nodes, positions and lags, for a person or a machine."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tidelog.messages import Nodes
from tidelog.node_form import node_forms
from tidelog.node_notes import notes
from tidelog.positions import applied_ts, published_ts, resolved_ts
from tidelog.timestamps import physical_ms
from tidelog_cli.glance import positions
from tidelog_cli.node_table import NodeTable

Report = dict[str, Any]


def report(found: Nodes, feed: str) -> Report:
    """The documented JSON form: `nodes` as `tidelog nodes` has them, positions, lags in ms.

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
        "nodes": node_forms(found),
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
    """For a person who asked once: nothing is cut."""
    return Group(
        *positions(shown),
        NodeTable(shown["nodes"], ("kind", "feed", "lag")),
        Text("\n".join(notes(shown["nodes"])), "yellow"),
    )
