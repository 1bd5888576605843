"""What an operator may wish of a node. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.errors import BadInput, Refused
from tidelog.messages import ONLINE, PUMP
from tidelog_registry.node import Key, Node
from tidelog_registry.node_state import operated
from tidelog_registry.trust import Trust


def find(nodes: Mapping[Key, Node], name: str) -> Node:
    """The node of that name, a Pump first. Raises BadInput."""
    found = [key for key in sorted(nodes) if key[1] == name]
    if not found:
        raise BadInput(f"no node {name!r} is registered", hint="`tidelog status` lists them")
    return nodes[next((key for key in found if key[0] == PUMP), found[0])]


def wish(node: Node, action: str, trust: Trust, now: float, *, accept_loss: bool) -> str:
    """The state that it leads to. Raises BadInput (no such action), Refused (not now)."""
    state = operated(node.state, action, accept_loss=accept_loss)
    if state == ONLINE and not trust.settled(now):
        raise Refused("the membership was lost a moment ago: no Pump goes online yet")
    if node.join is not None and node.join.phase == "opening":
        raise Refused(f"{node.status.nodeId} is going online this moment: ask again")
    return state
