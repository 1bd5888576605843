"""What an operator may wish of a node. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.errors import NotFound, Refused
from tidelog.messages import ONLINE, PUMP
from tidelog_registry.node import Key, Node
from tidelog_registry.node_state import operated
from tidelog_registry.trust import Trust


def find(nodes: Mapping[Key, Node], name: str, kind: str = "") -> Node:
    """The node of that name, of that kind, a Pump first. Raises NotFound."""
    found = [key for key in sorted(nodes) if key[1] == name and kind in ("", key[0])]
    if not found:
        what = kind or "node"
        raise NotFound(f"no {what} {name!r} is registered", hint="`tidelog nodes` lists them")
    return nodes[next((key for key in found if key[0] == PUMP), found[0])]


def wish(node: Node, action: str, trust: Trust, now: float, *, accept_loss: bool) -> str:
    """The state that it leads to. Raises BadInput (no such action), Refused (not now)."""
    state = operated(node.state, action, accept_loss=accept_loss)
    if state == ONLINE and not trust.settled(now):
        raise Refused("the membership was lost a moment ago: no Pump goes online yet")
    if node.join is not None and node.join.phase == "opening":
        raise Refused(f"{node.status.nodeId} is going online this moment: ask again")
    return state
