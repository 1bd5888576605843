"""The cluster as the registry sees it: nodes, leases, joins. Pure: events in, effects out (I3, I4).

Times are monotonic seconds. Effects are carried out in order by the directory.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.errors import BadInput, Conflict, Refused
from tidelog.membership import HEARTBEAT_S, Member
from tidelog.messages import (
    CLOSING,
    DRAINER,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    PUMP,
    NodeStatus,
)
from tidelog_registry.node_state import (
    ANNOUNCED,
    LEFT,
    NODE_LEASE_S,
    READER_LEASE_S,
    RETURNED,
    lease_s,
    operated,
)

MAX_NODES = 1024
FIRST_WORD_S = HEARTBEAT_S + 0.5
"""By then every living node has sent a heartbeat, so that even a registry without a trace of
earlier ones knows whether there is anybody."""
GONE_S = 600.0
"""A reader that is offline, or silent for this long, is forgotten."""
Key = tuple[str, str]


class Write(msgspec.Struct, frozen=True):
    """Write this entry of the membership bucket, then tell `recorded`."""

    member: Member


class Notify(msgspec.Struct, frozen=True):
    """Ask this Drainer to add the Pump, again and again while `awaits` says so; then `acked`."""

    drainer: str
    pump: str


class Changed(msgspec.Struct, frozen=True):
    """Publish the event of a state change."""

    status: NodeStatus


class Joined(msgspec.Struct, frozen=True):
    """Answer those who wait for this Pump's join: it is through, or it was ended."""

    pump: str
    state: str


Effect = Write | Notify | Changed | Joined


class Join(msgspec.Struct):
    """A Pump on its way in: `recording` its entry, `held` while the cluster is unsure of itself,
    `asking` the Drainers in `waiting`, `opening`: its entry is being written as online."""

    phase: str = "recording"
    waiting: list[str] = []


class Node(msgspec.Struct):
    """`heard`: in this life of the registry. `reachable`: the lease holds. `brought`: the largest
    timestamp it told of when its join began; 0 = it came without data."""

    status: NodeStatus
    state: str
    lease_until: float
    heard: bool = True
    reachable: bool = True
    join: Join | None = None
    brought: int = 0

    def shown(self) -> NodeStatus:
        return msgspec.structs.replace(self.status, state=self.state, isAlive=self.reachable)


def _has_lived(status: NodeStatus) -> bool:
    """Does one that registers tell of an earlier life? A new Pump may know timestamps already,
    from an oracle that isn't ours."""
    if status.kind != PUMP:
        return status.resolvedTS > 0
    return bool(_logged(status)) or (status.highTS > 0 and status.epoch != 1)


def _logged(status: NodeStatus) -> int:
    """The largest timestamp of what a Pump says it holds. (W tells nothing of that: a Pump that was
    restarted may know of no oracle's answer yet, while its log holds what nobody has read.)"""
    return max(status.maxCommitTS, status.logTS)


def _found(member: Member) -> NodeStatus:
    """What an entry of the bucket says. Of one that joins, or is gone, it has what the Pump told of
    its binlogs, and not its W: that alone moves the oracle, however far it is (see `floor`)."""
    if member.state in (JOINING, OFFLINE):
        return NodeStatus(member.node, maxCommitTS=member.high_ts, epoch=member.epoch)
    return NodeStatus(member.node, highTS=member.high_ts, epoch=member.epoch)


class Cluster:
    """`members` is the bucket as it was found; `fresh` says that there was no trace of an earlier
    life, so that there is nobody to wait for until a node says otherwise."""

    def __init__(self, members: Mapping[str, Member], now: float, *, fresh: bool, lost: bool):
        self.nodes: dict[Key, Node] = {}
        self._fresh_until = now + NODE_LEASE_S if fresh else now
        self._settled_at = now + NODE_LEASE_S if lost else now
        self._joins_from = now if fresh else now + READER_LEASE_S
        self._known_from = now + NODE_LEASE_S
        self._floor_from = now + FIRST_WORD_S if fresh else now
        for node in sorted(members):
            member = members[node]
            status, lease = _found(member), now + NODE_LEASE_S
            living = member.state != OFFLINE
            self.nodes[PUMP, node] = Node(
                status, member.state, lease, False, living, brought=member.high_ts
            )

    # What nodes say -----------------------------------------------------------------------

    def register(self, status: NodeStatus, now: float) -> tuple[str | None, list[Effect]]:
        """The state to answer with, or None: a join is under way, `Joined` ends it.

        Raises Conflict (a newer instance is there), Refused (too many nodes).
        """
        effects: list[Effect] = []
        key = (status.kind, status.nodeId)
        self._check_epoch(key, status)
        node = self.nodes.get(key)
        if node is None:
            if len(self.nodes) >= MAX_NODES:
                raise Refused(f"{MAX_NODES} nodes are registered")
            if _has_lived(status):
                self._doubt(now)
            node = self.nodes[key] = Node(status, OFFLINE, now)
        self._hear(key, node, status, now, effects)
        if status.kind != PUMP:
            self._enter(key, node, ONLINE if node.state != CLOSING else CLOSING, effects)
            return node.state, effects
        state = RETURNED[node.state]
        if state == JOINING or (node.state != state and not self.settled(now)):
            self._begin_join(node, effects)
            return None, effects
        self._enter(key, node, state, effects)
        return state, effects

    def heartbeat(
        self, status: NodeStatus, now: float, *, safe_point: int = 0
    ) -> tuple[str | None, list[Effect]]:
        """The state to answer with, or None: not known here, it shall register.

        Raises Conflict (a newer instance is there).
        """
        effects: list[Effect] = []
        key = (status.kind, status.nodeId)
        self._check_epoch(key, status)
        node = self.nodes.get(key)
        if node is None:
            self._doubt(now)
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
        return known_to_us and not self.settled(now) and len(self.nodes) < MAX_NODES

    def _part(
        self, key: Key, node: Node, status: NodeStatus, now: float, effects: list[Effect]
    ) -> None:
        node.status, node.heard, node.reachable, node.lease_until = status, True, False, now
        state = LEFT[node.state] if key[0] == PUMP else OFFLINE
        self._enter(key, node, state, effects, force=True)

    def _check_epoch(self, key: Key, status: NodeStatus) -> None:
        node = self.nodes.get(key)
        if node is not None and node.heard and status.epoch < node.status.epoch:
            raise Conflict(
                f"{status.nodeId} has a newer instance (epoch {node.status.epoch})",
                hint="two processes use one node id: stop this one",
            )

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
            effects.append(Write(self._member(node)))
        effects.append(Changed(node.shown()))

    @staticmethod
    def _member(node: Node, state: str = "") -> Member:
        """Its entry, in the state that it has or is about to get."""
        status, state = node.status, state or node.state
        high = {JOINING: node.brought, OFFLINE: status.maxCommitTS}.get(state, status.highTS)
        return Member(status.nodeId, state, status.epoch, high)

    # Joining (I4) ---------------------------------------------------------------------------

    def _begin_join(self, node: Node, effects: list[Effect]) -> None:
        if node.join is not None:
            return
        node.join = Join()
        if node.state in (JOINING, OFFLINE):
            before = node.status.highTS if node.state == OFFLINE else node.brought
            node.brought = max(before, _logged(node.status))
            node.state = JOINING
            effects += [Write(self._member(node)), Changed(node.shown())]
        else:
            # A member that comes back while the cluster is unsure: only wait.
            node.join.phase = "held"

    def recorded(self, member: Member, now: float) -> list[Effect]:
        """The entry is durable in the bucket."""
        effects: list[Effect] = []
        node = self.nodes.get((PUMP, member.node))
        if node is None or node.join is None:
            return effects
        if node.join.phase == "recording" and member.state == JOINING:
            node.join.phase = "held"
            self._advance(node, now, effects)
        elif node.join.phase == "opening" and member.state == ONLINE:
            if self.settled(now):
                self._end_join(node, ONLINE, effects)
            else:
                node.join.phase = "held"
        return effects

    def acked(self, drainer: str, pump: str, now: float) -> list[Effect]:
        """The Drainer has the Pump as a source."""
        effects: list[Effect] = []
        node = self.nodes.get((PUMP, pump))
        if node is not None and node.join is not None and drainer in node.join.waiting:
            node.join.waiting.remove(drainer)
            self._advance(node, now, effects)
        return effects

    def awaits(self, drainer: str, pump: str) -> bool:
        node = self.nodes.get((PUMP, pump))
        return node is not None and node.join is not None and drainer in node.join.waiting

    def _advance(self, node: Node, now: float, effects: list[Effect]) -> None:
        join = node.join
        assert join is not None
        sure = self.settled(now) and now >= self._joins_from
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
                join.phase = "opening"
                effects.append(Write(self._member(node, ONLINE)))

    def _end_join(self, node: Node, state: str, effects: list[Effect]) -> None:
        node.join, node.state = None, state
        effects += [Changed(node.shown()), Joined(node.status.nodeId, state)]

    def _live_drainers(self, now: float) -> list[str]:
        return [
            name
            for (kind, name), node in sorted(self.nodes.items())
            if kind == DRAINER and node.state != OFFLINE and now < node.lease_until
        ]

    # Time -----------------------------------------------------------------------------------

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
            if node.join is not None:
                self._advance(node, now, effects)
            if node.state == JOINING and not node.reachable and self._never_wrote(node):
                self._fail_join(node, effects)
        return effects

    @staticmethod
    def _never_wrote(node: Node) -> bool:
        """A join that fails leaves no data behind: it was told of no Prewrite yet, and it brought
        none from an earlier life. (While its entry is being opened, its fate is open too.)"""
        opening = node.join is not None and node.join.phase in ("recording", "opening")
        return not opening and not node.brought

    def _fail_join(self, node: Node, effects: list[Effect]) -> None:
        node.state = OFFLINE
        effects.append(Write(self._member(node)))
        self._end_join(node, OFFLINE, effects)

    def lost(self, now: float) -> None:
        """The bucket was lost: no Pump goes online for one lease time, while nodes announce
        themselves (I3)."""
        self._settled_at = self._known_from = now + NODE_LEASE_S
        self._fresh_until = now

    def _doubt(self, now: float) -> None:
        """A new registry without a trace of earlier ones meets a node that has had a life."""
        if now < self._fresh_until:
            self.lost(now)

    def settled(self, now: float) -> bool:
        return now >= self._settled_at

    def safe_point_known(self, now: float) -> bool:
        """After a start or a loss, consumers get one lease time to announce themselves."""
        return now >= self._known_from

    # Operators and readers ------------------------------------------------------------------

    def operate(
        self, name: str, action: str, now: float, *, accept_loss: bool
    ) -> tuple[NodeStatus, list[Effect]]:
        """Raises BadInput (no such node or action), Refused (not in this state)."""
        found = [key for key in sorted(self.nodes) if key[1] == name]
        if not found:
            raise BadInput(f"no node {name!r} is registered", hint="`tidelog status` lists them")
        key = next((k for k in found if k[0] == PUMP), found[0])
        node = self.nodes[key]
        state = operated(node.state, action, accept_loss=accept_loss)
        if state == ONLINE and not self.settled(now):
            raise Refused("the membership was lost a moment ago: no Pump goes online yet")
        if node.join is not None and node.join.phase == "opening":
            raise Refused(f"{name} is going online this moment: ask again")
        effects: list[Effect] = []
        self._enter(key, node, state, effects)
        if state == OFFLINE and node.join is not None:
            self._end_join(node, OFFLINE, effects)
        return node.shown(), effects

    def unheard(self, now: float) -> list[str]:
        """Who may know larger timestamps than anybody here, and hasn't said so yet (I9)."""
        waits_for = [
            name
            for (kind, name), node in sorted(self.nodes.items())
            if kind == PUMP and not node.heard and node.state != OFFLINE
            if node.state != JOINING or node.brought
        ]
        if now < max(self._settled_at, self._floor_from):
            waits_for.insert(0, "nodes to announce themselves")
        return waits_for

    def statuses(self) -> list[NodeStatus]:
        return [node.shown() for _, node in sorted(self.nodes.items())]
