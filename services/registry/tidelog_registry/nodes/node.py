"""One node as the registry knows it, and what can be told from what it says. Pure."""

from __future__ import annotations

import msgspec

from tidelog.errors import Conflict, NodeIdTaken
from tidelog.membership import Member
from tidelog.messages import JOINING, OFFLINE, PUMP, NodeStatus, Order

Key = tuple[str, str]
"""Kind and node id."""


class Join(msgspec.Struct):
    """A Pump on its way in: `recording` its entry, `held` while the cluster is unsure of itself,
    `asking` the Drainers in `waiting`, `opening`: its entry is being written as `opens`, which is
    online unless an operator asked for something else."""

    phase: str = "recording"
    waiting: list[str] = []
    opens: str = ""


class Node(msgspec.Struct):
    """`heard`: in this life of the registry, last at `heard_at`. `reachable`: the lease holds.
    `brought`: the largest timestamp it told of when its join began; 0 = it came without data.
    `order`: the newest that the registry or the node knows of. `read_ts`: of a Pump that was taken
    offline, up to where everybody had read it. `behind`: who has yet to read it before that.
    `left_ts`: `Member.left_ts`. `lost`: what its removal may have cost."""

    status: NodeStatus
    state: str
    lease_until: float
    heard: bool = True
    heard_at: float = 0.0
    reachable: bool = True
    join: Join | None = None
    brought: int = 0
    order: Order = Order()
    read_ts: int | None = None
    behind: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    left_ts: int = 0

    def replaced_by(self, status: NodeStatus) -> None:
        """A Pump of this name comes in; with another directory, what a tombstone let go stays
        gone."""
        if self.state == OFFLINE and self.status.mark != status.mark:
            self.left_ts = self.member().gone_ts

    def shown(self) -> NodeStatus:
        said = dict(self.status.detail)
        if self.state == OFFLINE:
            # Its last word before it was told: it waits for nobody any more.
            said.pop("closing", None)
        return msgspec.structs.replace(
            self.status,
            state=self.state,
            isAlive=self.reachable,
            order=self.order,
            detail=said | self._notes(),
        )

    def _notes(self) -> dict[str, str]:
        """What the registry has to say of it, beside what it says itself."""
        name = self.status.nodeId
        if self.lost and self.state == OFFLINE:
            return {"lost": "; ".join(self.lost)}
        if self.order.action != "offline" or self.state == OFFLINE:
            return {}
        if not self.reachable:
            gone = f"if it is gone for good, `tidelog offline {name} --accept-loss`"
            return {"closing": f"waits for {name} itself, which is unreachable; {gone}"}
        return {"closing": f"waits for {'; '.join(self.behind)}"} if self.behind else {}

    def member(self, state: str = "") -> Member:
        """A Pump's entry, in the state that it has or is about to get."""
        status, state = self.status, state or self.state
        high = {JOINING: self.brought, OFFLINE: status.maxCommitTS}.get(state, status.highTS)
        read_ts = self.read_ts if state == OFFLINE else None
        return Member(
            status.nodeId,
            state,
            status.epoch,
            high,
            status.mark,
            read_ts,
            self.order,
            self.left_ts,
        )

    def left_before(self, status: NodeStatus) -> bool:
        """Is the order that stands here for leaving done, by the word of a reader? One that died
        before it was told so would leave again when it is started: for it, that is kept. One that
        registers was told by an earlier life of the registry, which could not keep it."""
        done = Order("", self.order.number)
        return self.order.action == "offline" and status.order == done

    def came_back(self, status: NodeStatus) -> bool:
        """Was a reader let in again since that order? It then knows of a newer one."""
        newer = status.order.number > self.order.number and status.order.action != "offline"
        return self.order.action == "offline" and newer

    def learn_order(self, status: NodeStatus) -> bool:
        """Take over a newer order from the node, which keeps it where we lost it. Was there one?"""
        if status.order.number <= self.order.number:
            return False
        self.order = status.order
        return True


class ReaderOrder(msgspec.Struct, frozen=True):
    """What the registry keeps of a Drainer or Applier that an operator asked something of; a Pump's
    order stands in its entry of the membership bucket."""

    kind: str
    node: str
    feed: str
    state: str
    order: Order


def recalled_reader(kept: ReaderOrder, lease_until: float) -> Node:
    """One that only the order it was given tells of yet."""
    status = NodeStatus(kept.node, kind=kept.kind, feed=kept.feed)
    here = kept.state != OFFLINE
    return Node(status, kept.state, lease_until, heard=False, reachable=here, order=kept.order)


def recalled(member: Member, lease_until: float) -> Node:
    """One that only its entry of the bucket tells of yet. Of one that joins, or is gone, that has
    what the Pump told of its binlogs, and not its W: that alone moves the oracle, however far it
    is (see `floor`)."""
    if member.state in (JOINING, OFFLINE):
        status = NodeStatus(member.node, maxCommitTS=member.high_ts)
    else:
        status = NodeStatus(member.node, highTS=member.high_ts)
    return Node(
        msgspec.structs.replace(status, epoch=member.epoch, mark=member.mark),
        member.state,
        lease_until,
        heard=False,
        reachable=member.state != OFFLINE,
        brought=member.high_ts,
        order=member.order,
        read_ts=member.read_ts,
        left_ts=member.left_ts,
    )


def check_same(node: Node, status: NodeStatus) -> None:
    """Does it come from the node we know by its id? Raises Conflict, NodeIdTaken.

    A directory without a mark is of an older release; what a tombstone let go nobody claims.
    """
    known, state = node.status, node.state
    if state != OFFLINE and known.mark and status.mark and known.mark != status.mark:
        raise NodeIdTaken(f"{status.nodeId} is known with another data directory")
    if not node.heard or (state == OFFLINE and known.mark != status.mark):
        return
    if status.epoch < known.epoch:
        raise Conflict(
            f"{status.nodeId} has a newer instance (epoch {known.epoch})",
            hint="two processes use one node id: stop this one",
        )
    if status.epoch == known.epoch and known.life != status.life and known.life and status.life:
        raise NodeIdTaken(f"two copies of {status.nodeId}'s directory are at epoch {known.epoch}")


def has_lived(status: NodeStatus) -> bool:
    """Does one that registers tell of an earlier life? A new Pump may know timestamps already,
    from an oracle that isn't ours."""
    if status.kind != PUMP:
        return status.resolvedTS > 0
    return bool(logged(status)) or (status.highTS > 0 and status.epoch != 1)


def logged(status: NodeStatus) -> int:
    """The largest timestamp of what a Pump says it holds. (W tells nothing of that: a Pump that was
    restarted may know of no oracle's answer yet, while its log holds what nobody has read.)"""
    return max(status.maxCommitTS, status.logTS)
