"""How a Pump comes in (I4). Pure.

Its entry is recorded as joining, then every Drainer whose lease is live is asked to add it, then
the entry is recorded as online, and only then is the Pump told.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.membership import Member
from tidelog.messages import DRAINER, JOINING, OFFLINE, PUMP
from tidelog_registry.nodes.effects import Changed, Effect, Joined, Notify, Write
from tidelog_registry.nodes.node import Join, Key, Node, logged
from tidelog_registry.nodes.node_state import follows, ordered
from tidelog_registry.nodes.trust import Trust


class Joins:
    """Over the cluster's nodes, which it shares."""

    def __init__(self, nodes: Mapping[Key, Node], trust: Trust) -> None:
        self._nodes = nodes
        self._trust = trust

    def begin(self, node: Node, effects: list[Effect]) -> None:
        if node.join is not None:
            return
        node.join = Join()
        if node.state in (JOINING, OFFLINE):
            before = node.status.highTS if node.state == OFFLINE else node.brought
            node.brought = max(before, logged(node.status))
            node.state = JOINING
            effects += [Write(node.member()), Changed(node.shown())]
        else:
            # A member that comes back while the cluster is unsure: only wait.
            node.join.phase = "held"

    def recorded(self, member: Member, now: float) -> list[Effect]:
        """The entry is durable in the bucket."""
        effects: list[Effect] = []
        node = self._nodes.get((PUMP, member.node))
        if node is None or node.join is None:
            return effects
        if node.join.phase == "recording" and member.state == JOINING:
            node.join.phase = "held"
            self.advance(node, now, effects)
        elif node.join.phase == "opening" and member.state == node.join.opens:
            if self._trust.settled(now):
                self.end(node, member.state, effects)
            else:
                node.join.phase = "held"
        return effects

    def acked(self, drainer: str, pump: str, now: float) -> list[Effect]:
        """The Drainer has the Pump as a source."""
        effects: list[Effect] = []
        node = self._nodes.get((PUMP, pump))
        if node is not None and node.join is not None and drainer in node.join.waiting:
            node.join.waiting.remove(drainer)
            self.advance(node, now, effects)
        return effects

    def awaits(self, drainer: str, pump: str) -> bool:
        node = self._nodes.get((PUMP, pump))
        return node is not None and node.join is not None and drainer in node.join.waiting

    def tick(self, node: Node, now: float, effects: list[Effect]) -> None:
        if node.join is not None:
            self.advance(node, now, effects)
        if node.state == JOINING and not node.reachable and never_wrote(node):
            node.state = follows(PUMP, node.state, "removed")
            effects.append(Write(node.member()))
            self.end(node, node.state, effects)

    def advance(self, node: Node, now: float, effects: list[Effect]) -> None:
        join = node.join
        assert join is not None
        sure = self._trust.knows_drainers(now)
        if join.phase == "asking" and not sure:
            join.phase, join.waiting = "held", []
        if join.phase == "held" and sure:
            join.phase = "asking"
            join.waiting = self._live_drainers(now)
            effects += [Notify(drainer, node.status.nodeId) for drainer in join.waiting]
        if join.phase == "asking":
            live = self._live_drainers(now)
            join.waiting = [drainer for drainer in join.waiting if drainer in live]
            if not join.waiting:
                join.phase, join.opens = "opening", _opens(node)
                effects.append(Write(node.member(join.opens)))

    def end(self, node: Node, state: str, effects: list[Effect]) -> None:
        node.join, node.state = None, state
        effects += [Changed(node.shown()), Joined(node.status.nodeId, state)]

    def _live_drainers(self, now: float) -> list[str]:
        return [
            name
            for (kind, name), node in sorted(self._nodes.items())
            if kind == DRAINER and node.state != OFFLINE and now < node.lease_until
        ]


def _opens(node: Node) -> str:
    """A member that only waited until the cluster was sure comes back as any returning one."""
    event = "opens" if node.state == JOINING else "returns"
    return follows(PUMP, node.state, ordered(event, node.order.action))


def never_wrote(node: Node) -> bool:
    """A join that fails leaves no data behind: it was told of no Prewrite yet, and it brought
    none from an earlier life. (While its entry is being opened, its fate is open too.)"""
    opening = node.join is not None and node.join.phase in ("recording", "opening")
    return not opening and not node.brought
