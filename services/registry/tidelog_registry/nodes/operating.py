"""What an operator may wish of a node, and what an accepted loss may cost. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.errors import BadInput, NotFound, Refused
from tidelog.messages import CLOSING, JOINING, OFFLINE, ONLINE, PUMP, StateRequest
from tidelog_registry.nodes.joins import never_wrote
from tidelog_registry.nodes.node import Key, Node
from tidelog_registry.nodes.node_state import ACTIONS, follows, lease_s
from tidelog_registry.nodes.trust import Trust


def find(nodes: Mapping[Key, Node], name: str, kind: str = "") -> Node:
    """The node of that name, of that kind, a Pump first. Raises NotFound."""
    found = [key for key in sorted(nodes) if key[1] == name and kind in ("", key[0])]
    if not found:
        what = kind or "node"
        raise NotFound(f"no {what} {name!r} is registered", hint="`tidelog nodes` lists them")
    return nodes[next((key for key in found if key[0] == PUMP), found[0])]


def judged(node: Node, wish: StateRequest, trust: Trust, now: float) -> str:
    """The event that the wish is to this node. Raises BadInput (no such action), Refused (not
    now)."""
    if wish.action not in ACTIONS:
        raise BadInput(f"unknown action {wish.action!r}", hint=f"one of {', '.join(ACTIONS)}")
    if wish.accept_loss and wish.action != "offline":
        raise BadInput(f"{wish.action} loses nothing", hint="leave --accept-loss out")
    kind, name = node.status.kind, node.status.nodeId
    if node.join is not None and node.join.phase == "opening":
        raise Refused(f"{name} is going online this moment: ask again")
    event = wish.action
    if event == "offline":
        event = _offline(node, trust, now, accept_loss=wish.accept_loss)
    state = follows(kind, node.state, event)
    if kind == PUMP and state == ONLINE and not trust.settled(now):
        raise Refused(
            "the membership was lost a moment ago: no Pump goes online yet",
            hint=f"ask again in {lease_s(PUMP):.0f} s",
        )
    return event


def _offline(node: Node, trust: Trust, now: float, *, accept_loss: bool) -> str:
    if node.status.kind != PUMP:
        # Gone for good, it has nothing that could be lost.
        return "offline" if node.reachable else "removed"
    if node.state == JOINING and not node.reachable and never_wrote(node):
        return "removed"
    if not accept_loss or node.state == OFFLINE:
        return "offline"
    name = node.status.nodeId
    if (node.reachable and not node.heard) or not trust.knows_consumers(now):
        raise Refused(
            f"the registry knows too little yet of {name} and of who reads it",
            hint=f"ask again in {lease_s(PUMP):.0f} s",
        )
    if node.reachable and node.state != CLOSING:
        raise Refused(
            f"{name} is {node.state} and reachable: nothing of it has to be lost",
            hint=f"`offline {name}` drains it; only if that can't end, --accept-loss",
        )
    return "removed"


def may_lose(
    node: Node, read: Mapping[str, int], now: float, published_ts: int = 0
) -> tuple[list[str], int, int]:
    """What is lost with this Pump at worst, for people to read; its last commit_ts, as far as
    anybody can know; and up to where everybody had surely read it. `read`: by name, up to where
    those who need its data have it. `published_ts`: up to where a feed was published, which none
    was beyond what this Pump had given: of one that died before this registry began that alone
    tells what it held."""
    status, name = node.status, node.status.nodeId
    seen = f"{now - node.heard_at:.0f} s ago" if node.heard else "before the registry started"
    marks = f"commit_ts {status.maxCommitTS}, resolved_ts {status.resolvedTS}, W {status.highTS}"
    lines = [f"{name} was last heard of {seen}: {marks}; what it took after that, nobody knows"]
    if status.open:
        lines.append(f"{status.open} Prewrites were open there: if they commit, they are lost")
    lines += [
        f"{who} has read up to {position}"
        for who, position in sorted(read.items())
        if position < max(status.maxCommitTS, status.highTS)
    ]
    read_ts = min(read.values(), default=0)
    last_ts = status.maxCommitTS if node.heard else max(status.maxCommitTS, published_ts)
    if read:
        lines.append(f"everything of {name} with a commit_ts above {read_ts} may be lost")
    else:
        lines.append(f"nobody is registered as a reader: all that {name} held may be lost")
    return lines, last_ts, min(read_ts, last_ts)
