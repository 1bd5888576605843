"""From when on what the registry knows of the cluster may be acted on (I3, I4, I9). Pure.

Times are monotonic seconds. After a loss, or a start, the nodes get time to announce themselves.
"""

from __future__ import annotations

from tidelog.membership import HEARTBEAT_S
from tidelog_registry.nodes.node_state import NODE_LEASE_S, READER_LEASE_S

FIRST_WORD_S = HEARTBEAT_S + 0.5
"""By then every living node has sent a heartbeat, so that even a registry without a trace of
earlier ones knows whether there is anybody."""


class Trust:
    """`fresh` says that there was no trace of an earlier life, so that there is nobody to wait for
    until a node says otherwise; `lost`, that the membership bucket had been lost."""

    def __init__(self, now: float, *, fresh: bool, lost: bool) -> None:
        self._fresh_until = now + NODE_LEASE_S if fresh else now
        self._settled_at = now + NODE_LEASE_S if lost else now
        self._joins_from = now if fresh else now + READER_LEASE_S
        self._known_from = now + NODE_LEASE_S
        self._floor_from = now + FIRST_WORD_S if fresh else now

    def lost(self, now: float) -> None:
        """The bucket was lost: no Pump goes online for one lease time, while nodes announce
        themselves (I3)."""
        self._settled_at = self._known_from = now + NODE_LEASE_S
        self._fresh_until = now

    def doubt(self, now: float) -> None:
        """A new registry without a trace of earlier ones meets a node that has had a life."""
        if now < self._fresh_until:
            self.lost(now)

    def settled(self, now: float) -> bool:
        """Is the bucket whole?"""
        return now >= self._settled_at

    def knows_drainers(self, now: float) -> bool:
        """Has every Drainer whose lease is live been heard of?"""
        return self.settled(now) and now >= self._joins_from

    def knows_consumers(self, now: float) -> bool:
        """After a start or a loss, consumers get one lease time to announce themselves."""
        return now >= self._known_from

    def heard_everybody(self, now: float) -> bool:
        """Has every living Pump told its W?"""
        return now >= max(self._settled_at, self._floor_from)
