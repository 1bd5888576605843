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
    front = Front.of(found)
    return [
        msgspec.to_builtins(node)
        | {"unreachable": is_unreachable(node), "lag_ms": front.lag_ms(node)}
        for node in chosen
    ]


def is_unreachable(node: NodeStatus) -> bool:
    """No word of it for a lease, or it said good-bye, while others may still wait for it."""
    return not node.isAlive and node.state != OFFLINE


class Front(msgspec.Struct, frozen=True):
    """Up to where the Pumps have resolved: the one that is furthest, and all. 0: not known."""

    furthest: int
    all: int

    @classmethod
    def of(cls, found: Nodes) -> Front:
        pumps = [n for n in found.nodes if n.kind == PUMP and n.state not in (OFFLINE, JOINING)]
        sources = [n.resolvedTS for n in pumps]
        return cls(max(sources, default=0), min(sources, default=0))

    def lag_ms(self, node: NodeStatus) -> int | None:
        """How far its position (resolvedTS) is behind, in time: a Pump's behind the Pump that is
        furthest, a reader's behind what all Pumps have resolved. None while one is not known."""
        reference = self.furthest if node.kind == PUMP else self.all
        if node.state == OFFLINE or not reference or not node.resolvedTS:
            return None
        return max(0, physical_ms(reference) - physical_ms(node.resolvedTS))
