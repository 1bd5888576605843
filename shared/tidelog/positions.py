"""Up to where a cluster has come: what its Pumps resolved, a feed's Drainers published and its
downstreams applied, from what the nodes told the registry last. Pure; 0 while nobody says so."""

from __future__ import annotations

from tidelog import messages
from tidelog.messages import Nodes, NodeStatus


def of_kind(found: Nodes, kind: str) -> list[NodeStatus]:
    return sorted((n for n in found.nodes if n.kind == kind), key=lambda n: n.nodeId)


def applied_ts(found: Nodes, feed: str) -> int:
    """Everything with commit_ts <= this is in each downstream of the feed; 0 while nobody says so.
    Of an Applier and its standbys, who is furthest knows; one that was let go counts only if
    nobody else is left."""
    here = [n for n in of_kind(found, messages.APPLIER) if n.feed == feed]
    staying = [n for n in here if not _was_let_go(n)] or here
    copies: dict[str, int] = {}
    for node in staying:
        copy = node.standbyOf or node.nodeId
        copies[copy] = max(copies.get(copy, 0), node.resolvedTS)
    return min(copies.values(), default=0)


def _was_let_go(node: NodeStatus) -> bool:
    """By an operator; one that was only stopped is offline, too, and comes back."""
    return node.state == messages.OFFLINE and node.order.action == "offline"


def published_ts(found: Nodes, feed: str) -> int:
    """What is in the stream, as the Drainer that is furthest says."""
    here = [n.resolvedTS for n in of_kind(found, messages.DRAINER) if n.feed == feed]
    return max(here, default=0)


def resolved_ts(found: Nodes) -> int:
    """What every Pump that is no longer joining has resolved."""
    away = (messages.OFFLINE, messages.JOINING)
    pumps = [n for n in of_kind(found, messages.PUMP) if n.state not in away]
    return min((n.resolvedTS for n in pumps), default=0)
