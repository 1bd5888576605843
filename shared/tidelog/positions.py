"""Up to where a cluster has come: what its Pumps resolved, a feed's Drainers published and its
downstreams applied, from what the nodes told the registry last. Pure; 0 while nobody says so."""

from __future__ import annotations

from tidelog import messages
from tidelog.messages import Nodes, NodeStatus


def of_kind(found: Nodes, kind: str) -> list[NodeStatus]:
    return sorted((n for n in found.nodes if n.kind == kind), key=lambda n: n.nodeId)


def sources(found: Nodes) -> list[NodeStatus]:
    """The Pumps that count: all that are no longer joining."""
    away = (messages.OFFLINE, messages.JOINING)
    return [n for n in of_kind(found, messages.PUMP) if n.state not in away]


def publisher(found: Nodes, feed: str) -> NodeStatus | None:
    """The feed's Drainer that is furthest; None while nobody is."""
    here = [n for n in of_kind(found, messages.DRAINER) if n.feed == feed]
    return max(here, key=_knows, default=None)


def appliers(found: Nodes, feed: str) -> list[NodeStatus]:
    """One for each downstream of the feed: of an Applier and its standbys, who is furthest knows.
    One that was let go counts only if nobody else is left."""
    here = [n for n in of_kind(found, messages.APPLIER) if n.feed == feed]
    copies: dict[str, list[NodeStatus]] = {}
    for node in [n for n in here if not _was_let_go(n)] or here:
        copies.setdefault(node.standbyOf or node.nodeId, []).append(node)
    return [max(nodes, key=_knows) for nodes in copies.values()]


def _knows(node: NodeStatus) -> tuple[int, bool]:
    """Of two that are equally far, who does the work."""
    return node.resolvedTS, "standby" not in node.detail


def _was_let_go(node: NodeStatus) -> bool:
    """By an operator; one that was only stopped is offline, too, and comes back."""
    return node.state == messages.OFFLINE and node.order.action == "offline"


def applied_ts(found: Nodes, feed: str) -> int:
    """Everything with commit_ts <= this is in each downstream; 0 while nobody says so."""
    return min((node.resolvedTS for node in appliers(found, feed)), default=0)


def published_ts(found: Nodes, feed: str) -> int:
    """What is in the stream, as the Drainer that is furthest says."""
    node = publisher(found, feed)
    return 0 if node is None else node.resolvedTS


def resolved_ts(found: Nodes) -> int:
    """What every Pump that is no longer joining has resolved."""
    return min((node.resolvedTS for node in sources(found)), default=0)
