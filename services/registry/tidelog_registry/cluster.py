"""The cluster as the registry sees it: who is there, whose lease holds. Pure: events in, effects
out (I3, I4). How a Pump comes in is in `joins`, what an operator may wish in `operating`.

Times are monotonic seconds. Effects are carried out in order by the directory.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.errors import Refused
from tidelog.membership import Member
from tidelog.messages import (
    CLOSING,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    PUMP,
    NodeStatus,
    StateReply,
)
from tidelog_registry import operating
from tidelog_registry.effects import Changed, Effect, Write
from tidelog_registry.joins import Joins
from tidelog_registry.node import Key, Node, check_same, has_lived, recalled
from tidelog_registry.node_state import ANNOUNCED, LEFT, NODE_LEASE_S, RETURNED, lease_s
from tidelog_registry.trust import Trust

MAX_NODES = 1024
GONE_S = 600.0
"""A reader that is offline, or silent for this long, is forgotten."""


class Cluster:
    """`members` is the bucket as it was found; `fresh` says that there was no trace of an earlier
    life, so that there is nobody to wait for until a node says otherwise."""

    def __init__(self, members: Mapping[str, Member], now: float, *, fresh: bool, lost: bool):
        self.nodes: dict[Key, Node] = {}
        self.trust = Trust(now, fresh=fresh, lost=lost)
        self.joins = Joins(self.nodes, self.trust)
        for node in sorted(members):
            self.nodes[PUMP, node] = recalled(members[node], now + NODE_LEASE_S)

    def register(self, status: NodeStatus, now: float) -> tuple[str | None, list[Effect]]:
        """The state to answer with, or None: a join is under way, `Joined` ends it.

        Raises Conflict, NodeIdTaken (it is another one), Refused (too many nodes).
        """
        effects: list[Effect] = []
        key = (status.kind, status.nodeId)
        node = self.nodes.get(key)
        if node is not None:
            check_same(node, status)
        else:
            if len(self.nodes) >= MAX_NODES:
                raise Refused(f"{MAX_NODES} nodes are registered")
            if has_lived(status):
                self.trust.doubt(now)
            node = self.nodes[key] = Node(status, OFFLINE, now)
        self._hear(key, node, status, now, effects)
        if status.kind != PUMP:
            self._enter(key, node, ONLINE if node.state != CLOSING else CLOSING, effects)
            return node.state, effects
        state = RETURNED[node.state]
        if state == JOINING or (node.state != state and not self.trust.settled(now)):
            self.joins.begin(node, effects)
            return None, effects
        self._enter(key, node, state, effects)
        return state, effects

    def heartbeat(
        self, status: NodeStatus, now: float, *, safe_point: int = 0
    ) -> tuple[str | None, list[Effect]]:
        """The state to answer with, or None: not known here, it shall register.

        Raises Conflict, NodeIdTaken (it is another one).
        """
        effects: list[Effect] = []
        key = (status.kind, status.nodeId)
        node = self.nodes.get(key)
        if node is not None:
            check_same(node, status)
        else:
            self.trust.doubt(now)
            if not self._adoptable(status, now):
                return None, effects
            # The bucket was lost: what the nodes say of themselves is what was recorded.
            node = self.nodes[key] = Node(status, OFFLINE, now)
            self._enter(key, node, status.state, effects)
        if not status.isAlive:
            self._part(key, node, status, now, effects)
            return node.state, effects
        unregistered = OFFLINE if key[0] != PUMP else JOINING
        if node.state == unregistered and node.join is None:
            return None, effects
        self._hear(key, node, status, now, effects)
        state = ANNOUNCED.get((node.state, status.state), node.state)
        if key[0] == PUMP and state == OFFLINE and safe_point < status.maxCommitTS:
            state = node.state
        self._enter(key, node, state, effects)
        return node.state, effects

    def _adoptable(self, status: NodeStatus, now: float) -> bool:
        recorded = status.state in (ONLINE, PAUSING, PAUSED, CLOSING)
        known_to_us = status.kind == PUMP and status.isAlive and recorded
        return known_to_us and not self.trust.settled(now) and len(self.nodes) < MAX_NODES

    def _part(
        self, key: Key, node: Node, status: NodeStatus, now: float, effects: list[Effect]
    ) -> None:
        node.status, node.heard, node.reachable, node.lease_until = status, True, False, now
        state = LEFT[node.state] if key[0] == PUMP else OFFLINE
        self._enter(key, node, state, effects, force=True)

    def _hear(
        self, key: Key, node: Node, status: NodeStatus, now: float, effects: list[Effect]
    ) -> None:
        returned = node.heard and not node.reachable
        node.status, node.heard, node.reachable = status, True, True
        node.lease_until = now + lease_s(key[0])
        if returned and status.isAlive:
            effects.append(Changed(node.shown()))

    def _enter(
        self, key: Key, node: Node, state: str, effects: list[Effect], *, force: bool = False
    ) -> None:
        if node.state == state and not force:
            return
        changed, node.state = node.state != state, state
        if key[0] == PUMP and changed:
            effects.append(Write(node.member()))
        effects.append(Changed(node.shown()))

    # Time and operators

    def tick(self, now: float) -> list[Effect]:
        """Leases that ran out, joins that may go on, readers to forget."""
        effects: list[Effect] = []
        for key, node in list(self.nodes.items()):
            if node.reachable and now >= node.lease_until:
                node.reachable = False
                effects.append(Changed(node.shown()))
            if key[0] != PUMP:
                if not node.reachable and now - node.lease_until > GONE_S:
                    del self.nodes[key]
                continue
            self.joins.tick(node, now, effects)
        return effects

    def lost(self, now: float) -> None:
        """The membership bucket was lost."""
        self.trust.lost(now)

    def operate(
        self, name: str, action: str, now: float, *, accept_loss: bool, kind: str = ""
    ) -> tuple[StateReply, list[Effect]]:
        """Raises NotFound (no such node), BadInput (no such action), Refused (not in this
        state)."""
        node = operating.find(self.nodes, name, kind)
        state = operating.wish(node, action, self.trust, now, accept_loss=accept_loss)
        effects: list[Effect] = []
        self._enter((node.status.kind, name), node, state, effects)
        if state == OFFLINE and node.join is not None:
            self.joins.end(node, OFFLINE, effects)
        return StateReply(node.shown()), effects

    # Answers

    def unheard(self, now: float) -> list[str]:
        """Who may know larger timestamps than anybody here, and hasn't said so yet (I9)."""
        waits_for = [
            name
            for (kind, name), node in sorted(self.nodes.items())
            if kind == PUMP and not node.heard and node.state != OFFLINE
            if node.state != JOINING or node.brought
        ]
        if not self.trust.heard_everybody(now):
            waits_for.insert(0, "nodes to announce themselves")
        return waits_for

    def statuses(self) -> list[NodeStatus]:
        return [node.shown() for _, node in sorted(self.nodes.items())]
