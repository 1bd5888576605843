"""What to do next with a slot that is adopted, from what the registry says of its Pump. Pure."""

from __future__ import annotations

from enum import Enum

from tidelog.messages import CLOSING, OFFLINE, ONLINE, PAUSED, PAUSING, PUMP, Nodes, NodeStatus


class Step(Enum):
    WAIT = "wait"
    """Its Prewrites end, and its readers read on."""
    LEAVE = "leave"
    """Ask the registry to take it offline."""
    CLOSING = "closing"
    """It is asked; this can't be taken back."""
    DONE = "done"


def known_as(nodes: Nodes, node: str) -> NodeStatus | None:
    """What the registry knows of this Pump."""
    return next((n for n in nodes.nodes if n.kind == PUMP and n.nodeId == node), None)


def step(nodes: Nodes, node: str, epoch: int) -> Step:
    """Offline is asked for when there is nothing left to wait for: who wants the slot back before
    finds it as it was left. What the registry says of an earlier epoch counts for nothing."""
    ours = known_as(nodes, node)
    if ours is None or ours.epoch != epoch:
        return Step.WAIT
    if ours.state == OFFLINE:
        return Step.DONE
    if ours.state == CLOSING:
        return Step.CLOSING
    drained = ours.isAlive and not ours.open and 0 < nodes.safe_point >= ours.maxCommitTS
    if drained and ours.state in (ONLINE, PAUSING, PAUSED):
        return Step.LEAVE
    return Step.WAIT
