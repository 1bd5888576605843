"""The cluster as the registry sees it: who is there, whose lease holds. Pure: events in, effects
out (I3, I4). How a Pump comes in is in `joins`, what an operator may wish in `operating`.

Times are monotonic seconds. Effects are carried out in order by the directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from tidelog.errors import Refused
from tidelog.membership import Member
from tidelog.messages import (
    APPLIER,
    CLOSING,
    DRAINER,
    JOINING,
    OFFLINE,
    PAUSED,
    PUMP,
    NodeStatus,
    Order,
    StateReply,
    StateRequest,
)
from tidelog_registry.nodes import operating
from tidelog_registry.nodes.effects import Changed, Effect, Forget, Write
from tidelog_registry.nodes.joins import Joins
from tidelog_registry.nodes.node import (
    Key,
    Node,
    ReaderOrder,
    check_same,
    has_lived,
    recalled,
    recalled_reader,
)
from tidelog_registry.nodes.node_state import NODE_LEASE_S, follows, lease_s, ordered
from tidelog_registry.nodes.trust import Trust

MAX_NODES = 1024
GONE_S = 600.0
"""A reader that is offline, or silent for this long, is forgotten."""
HOLDS_DATA = 1
"""The least that is known of a Pump's timestamps, if it may have written: it is no failed join."""

Behind = Callable[[int], Sequence[str]]


def nobody(_ts: int) -> Sequence[str]:
    return ()


def _has_left(status: NodeStatus) -> bool:
    """Was it told, in this life, that it is offline? (One that is only drained says so too, but its
    order is not done.)"""
    return status.isAlive and status.state == OFFLINE and status.order.action != "offline"


def _left_since(node: Node, status: NodeStatus) -> bool:
    """A late word of an earlier life is none."""
    return _has_left(status) and status.order.number >= node.order.number


class Cluster:
    """`members` is the bucket as it was found, `orders` what was kept of readers; `fresh` says that
    there was no trace of an earlier life, so that there is nobody to wait for until a node says
    otherwise."""

    def __init__(
        self,
        members: Mapping[str, Member],
        now: float,
        *,
        fresh: bool,
        lost: bool,
        orders: Sequence[ReaderOrder] = (),
    ) -> None:
        self.nodes: dict[Key, Node] = {}
        self.trust = Trust(now, fresh=fresh, lost=lost)
        self.joins = Joins(self.nodes, self.trust)
        for node in sorted(members):
            self.nodes[PUMP, node] = recalled(members[node], now + NODE_LEASE_S)
        for kept in orders:
            self.nodes[kept.kind, kept.node] = recalled_reader(kept, now + lease_s(kept.kind))

    def register(self, status: NodeStatus, now: float) -> tuple[str | None, list[Effect]]:
        """The state to answer with, or None: a join is under way, `Joined` ends it.

        Raises Conflict, NodeIdTaken (it is another one), Refused (too many nodes).
        """
        effects: list[Effect] = []
        key = (status.kind, status.nodeId)
        node = self.nodes.get(key)
        if node is not None:
            check_same(node, status)
            if key[0] == PUMP:
                node.replaced_by(status)
        elif len(self.nodes) >= MAX_NODES:
            raise Refused(f"{MAX_NODES} nodes are registered")
        if (node is None or not node.heard) and has_lived(status):
            self.trust.doubt(now)
        if node is None:
            node = self.nodes[key] = Node(status, OFFLINE, now)
        if key[0] != PUMP and (node.left_before(status) or node.came_back(status)):
            node.state = OFFLINE
        if node.state == OFFLINE and node.order.action == "offline":
            # That order is done. This is a new node, whatever its directory says of it: but for an
            # order that it was given as one.
            number = max(node.order.number, status.order.number) + 1
            node.order = status.order if node.came_back(status) else Order("", number)
            node.lost = ()
        ordered_anew = node.learn_order(status)
        self._hear(key, node, status, now, effects)
        state = follows(key[0], node.state, ordered("returns", node.order.action))
        waits = node.state != state and not self.trust.settled(now)
        if key[0] == PUMP and (state == JOINING or waits or node.join is not None):
            self.joins.begin(node, effects)
            return None, effects
        self._enter(key, node, state, effects, ordered_anew=ordered_anew)
        return state, effects

    def heartbeat(
        self, status: NodeStatus, now: float, behind: Behind = nobody
    ) -> tuple[str | None, list[Effect]]:
        """The state to answer with, or None: not known here, it shall register. `behind` says who
        has yet to read a Pump's data up to its last commit, before it can go offline.

        Raises Conflict, NodeIdTaken (it is another one).
        """
        effects: list[Effect] = []
        key = (status.kind, status.nodeId)
        node = self.nodes.get(key)
        if node is not None:
            check_same(node, status)
        if (node is None or not node.heard) and not _has_left(status):
            self.trust.doubt(now)
        if node is None:
            if not self._adoptable(status, now):
                return None, effects
            node = self._adopt(key, status, effects)
        if key[0] != PUMP and node.came_back(status) and not _has_left(status):
            # Nobody tells it to leave again, or forgets it: it is asked to register.
            node.state = OFFLINE
        ordered_anew = node.learn_order(status)
        if not status.isAlive:
            self._part(key, node, status, now, effects, ordered_anew=ordered_anew)
            return node.state, effects
        if self._unregistered(node, status):
            return None, effects
        self._hear(key, node, status, now, effects)
        state = self._said(node, status, behind) if node.join is None else node.state
        if ordered_anew and node.join is None and not _has_left(status):
            state = follows(key[0], state, ordered("returns", node.order.action))
        self._enter(key, node, state, effects, ordered_anew=ordered_anew)
        return node.state, effects

    def recall(self, pumps: Sequence[str], now: float) -> list[Effect]:
        """A Drainer waits for these. One that nobody else tells of was forgotten with the bucket
        while it was away: it is on its way in, so that an operator sees it and can let it go. (Not
        online: back, it serves only when its entry is durable and every Drainer was asked, I4.)"""
        effects: list[Effect] = []
        for name in pumps if self.trust.settled(now) else ():
            if (PUMP, name) not in self.nodes and len(self.nodes) < MAX_NODES:
                node = recalled(Member(name, JOINING, high_ts=HOLDS_DATA), now + NODE_LEASE_S)
                self.nodes[PUMP, name] = node
                effects += [Write(node.member()), Changed(node.shown())]
        return effects

    @staticmethod
    def _unregistered(node: Node, status: NodeStatus) -> bool:
        """Shall a living node ask to be let in again? (Not a Pump that an operator took out: it is
        told so, and leaves. Nor one that left: it never asks.)"""
        if node.join is not None or node.state not in (OFFLINE, JOINING):
            return False
        if node.state == JOINING:
            return not _left_since(node, status)
        taken_out = status.kind == PUMP and node.order.action == "offline"
        return status.state != OFFLINE and not taken_out

    def _said(self, node: Node, status: NodeStatus, behind: Behind) -> str:
        """The state after a living node said what it has reached."""
        kind = status.kind
        left = _left_since(node, status)
        if status.state == PAUSED:
            return follows(kind, node.state, "paused")
        if status.state != OFFLINE or not (left or node.state == CLOSING):
            return node.state
        # One that left where our entry of that is lost takes the same way again.
        closing = follows(kind, node.state, "left")
        node.behind = tuple(behind(status.maxCommitTS)) if kind == PUMP else ()
        if node.behind:
            return closing
        node.read_ts = status.maxCommitTS
        node.state = closing  # from there it leaves, and what is kept of a reader is let go
        return follows(kind, closing, "drained")

    def _adoptable(self, status: NodeStatus, now: float) -> bool:
        """The bucket was lost: what the nodes say of themselves is what was recorded. One that has
        left stays offline: it comes back only by a new start."""
        if not status.isAlive or len(self.nodes) >= MAX_NODES:
            return False
        member = status.kind == PUMP and status.state != JOINING and not self.trust.settled(now)
        return member or _has_left(status)

    def _adopt(self, key: Key, status: NodeStatus, effects: list[Effect]) -> Node:
        # A drained one says that it is offline before it may be.
        drained = status.state == OFFLINE and not _has_left(status)
        node = Node(status, CLOSING if drained else status.state, 0.0, order=status.order)
        node.read_ts = status.maxCommitTS
        self.nodes[key] = node
        if key[0] == PUMP:
            effects.append(Write(node.member()))
        effects.append(Changed(node.shown()))
        return node

    def _part(
        self,
        key: Key,
        node: Node,
        status: NodeStatus,
        now: float,
        effects: list[Effect],
        *,
        ordered_anew: bool,
    ) -> None:
        node.status, node.heard, node.reachable = status, True, False
        node.lease_until = node.heard_at = now
        state = follows(key[0], node.state, "stops")
        self._enter(key, node, state, effects, ordered_anew=ordered_anew, force=True)

    def _hear(
        self, key: Key, node: Node, status: NodeStatus, now: float, effects: list[Effect]
    ) -> None:
        # Who writes to a Pump by gRPC must hear of its new address (a restart changes no state).
        moved = node.status.host != status.host
        returned = node.heard and (moved or not node.reachable)
        node.status, node.heard, node.reachable = status, True, True
        node.heard_at, node.lease_until = now, now + lease_s(key[0])
        if returned and status.isAlive:
            effects.append(Changed(node.shown()))

    def _enter(
        self,
        key: Key,
        node: Node,
        state: str,
        effects: list[Effect],
        *,
        ordered_anew: bool = False,
        force: bool = False,
    ) -> None:
        """`ordered_anew`: its order changed too. `force`: tell, though the state is the same."""
        if node.state == state and not (ordered_anew or force):
            return
        before, node.state = node.state, state
        if key[0] == PUMP and (before != state or ordered_anew):
            effects.append(Write(node.member()))
        elif before == CLOSING and state == OFFLINE:
            self._forget(node, effects)
        effects.append(Changed(node.shown()))

    def _forget(self, node: Node, effects: list[Effect]) -> None:
        effects.append(Forget(node.shown(), last=not self.has_drainer(node.status.feed)))

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
        self,
        wish: StateRequest,
        now: float,
        read: Mapping[str, int],
        wall_ms: int = 0,
        published_ts: int = 0,
    ) -> tuple[StateReply, list[Effect]]:
        """`read`: by name, up to where those who need the Pumps' data have read; `published_ts`: up
        to where a feed is published. `wall_ms` numbers the order, so that a later one counts even
        where a registry forgot one that a node obeys.

        Raises NotFound (no such node), BadInput (no such action), Refused (not in this state).
        """
        node = operating.find(self.nodes, wish.node, wish.kind)
        event = operating.judged(node, wish, self.trust, now)
        key, before = (node.status.kind, wish.node), node.state
        state = follows(key[0], before, event)
        lost: list[str] = []
        if event == "removed" and key[0] == PUMP and wish.accept_loss:
            lost, last_ts, read_ts = operating.may_lose(node, read, now, published_ts)
        if wish.dry_run:
            shown = msgspec.structs.replace(node.shown(), state=state)
            return StateReply(shown, lost), []
        if lost:
            node.lost, node.read_ts = tuple(lost), read_ts
            node.status = msgspec.structs.replace(node.status, maxCommitTS=last_ts)
        effects: list[Effect] = []
        # One that was not heard yet may have left by the order that stands here, and come back.
        anew = state != before or node.order.action != wish.action or not node.heard
        # A stopped Drainer might come back; so ordered it will not, and its feed can be forgotten.
        stopped = before == OFFLINE and key[0] == DRAINER and event == "removed"
        if anew and (before != OFFLINE or stopped):
            number = max(node.order.number, node.status.order.number) + 1
            node.order = Order(wish.action, max(number, wall_ms))
            self._enter(key, node, state, effects, ordered_anew=True)
        # One that stopped in order is offline already, and what it needs next is kept till now.
        if event == "removed" and key[0] == APPLIER and before != CLOSING:
            self._forget(node, effects)
        if state == OFFLINE and node.join is not None:
            self.joins.end(node, OFFLINE, effects)
        return StateReply(node.shown(), lost), effects

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

    def order(self, kind: str, name: str) -> Order:
        """What the node shall know an operator asked of it last."""
        node = self.nodes.get((kind, name))
        return node.order if node is not None else Order()

    def is_left(self) -> bool:
        """Does a Pump want to leave?"""
        return any(kind == PUMP and node.state == CLOSING for (kind, _), node in self.nodes.items())

    def let_go(self, kind: str, name: str) -> bool:
        """Did an operator take this reader out? Whatever it still says, nobody waits for it."""
        node = self.nodes.get((kind, name))
        if node is None or kind == PUMP:
            return False
        return node.state == OFFLINE and node.order.action == "offline"

    def reader_orders(self) -> list[ReaderOrder]:
        """What of them has to be kept: all but an offline that is done, and known to its reader."""
        return [
            ReaderOrder(kind, name, node.status.feed, node.state, node.order)
            for (kind, name), node in sorted(self.nodes.items())
            if kind != PUMP and node.order.action
            if node.state != OFFLINE or not node.left_before(node.status)
        ]

    def has_drainer(self, feed: str) -> bool:
        drainers = [node for (kind, _), node in self.nodes.items() if kind == DRAINER]
        return any(node.state != OFFLINE and node.status.feed == feed for node in drainers)

    def members(self) -> list[str]:
        """The Pumps that are sources."""
        nodes = sorted(self.nodes.items())
        return [name for (kind, name), node in nodes if kind == PUMP and node.state != OFFLINE]

    def statuses(self) -> list[NodeStatus]:
        return [node.shown() for _, node in sorted(self.nodes.items())]
