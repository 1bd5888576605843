"""A node as `tidelog nodes --json` and the HTTP paths show it (docs/operating.md). Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from tidelog.messages import JOINING, OFFLINE, PUMP, Nodes, NodeStatus
from tidelog.timestamps import physical_ms

Form = dict[str, Any]


def node_forms(found: Nodes, kind: str = "") -> list[Form]:
    """Of one kind, or of all, by kind and name: NodeStatus's fields and two of ours."""
    chosen = [node for node in found.nodes if kind in ("", node.kind)]
    chosen.sort(key=lambda node: (node.kind, node.nodeId))
    return [
        msgspec.to_builtins(node)
        | {"unreachable": is_unreachable(node), "lag_ms": lag_ms(node, found)}
        for node in chosen
    ]


def is_unreachable(node: NodeStatus) -> bool:
    """No word of it for a lease, or it said good-bye, while others may still wait for it."""
    return not node.isAlive and node.state != OFFLINE


def lag_ms(node: NodeStatus, found: Nodes) -> int | None:
    """How far its position (resolvedTS) is behind, in time: a Pump's behind the Pump that is
    furthest, a reader's behind what all Pumps have resolved. None while one is not known."""
    pumps = [n for n in found.nodes if n.kind == PUMP]
    sources = [n.resolvedTS for n in pumps if n.state not in (OFFLINE, JOINING)]
    if not sources or node.state == OFFLINE:
        return None
    reference = max(sources) if node.kind == PUMP else min(sources)
    if not reference or not node.resolvedTS:
        return None
    return max(0, physical_ms(reference) - physical_ms(node.resolvedTS))
