"""Who still needs the Pumps' data: consumers, feeds, and the safe point that waits for them all."""

from __future__ import annotations

from collections.abc import Set

import msgspec

from tidelog.errors import BadInput, Refused
from tidelog.feeds import checked_name
from tidelog.messages import DRAINER, DRAINER_CONSUMER, PUMP, Consumer, Heartbeat, NodeStatus
from tidelog.timestamps import TS_MAX
from tidelog_registry.nodes.node import ReaderOrder

MAX_CONSUMERS = 1024
RECORD_BYTES = 512 << 10
"""All that is kept goes in one message of NATS, which takes 1 MiB unless told otherwise."""


class Kept(msgspec.Struct, frozen=True):
    """What the registry keeps of readers, in the registry bucket and in its data directory."""

    consumers: list[Consumer] = []
    feeds: dict[str, int] = {}
    orders: list[ReaderOrder] = []


class Consumers:
    """Pure. A consumer counts until it is removed, whatever its lease (design section 7)."""

    def __init__(self, kept: Kept) -> None:
        self._positions = {(c.feed, c.name): c.commit_ts for c in kept.consumers}
        self._kept_feeds = dict(kept.feeds)
        self._pulled: dict[str, dict[str, int]] = {}
        self._named: dict[str, tuple[int, frozenset[str]]] = {}
        """The feeds of each Pump's last word, and its epoch then."""
        self._announcers: dict[tuple[str, str], set[str]] = {}
        """The nodes that announce a consumer: one, or it and who stands by for it."""
        self.refused = 0

    def announced(self, heartbeat: Heartbeat) -> None:
        """Take over what a node tells. Its own word counts, backwards too, except that a feed's
        Drainers together never go back: a standby knows less than the one that publishes."""
        for consumer in heartbeat.consumers:
            if consumer.name == DRAINER_CONSUMER or not _is_a_feed(consumer.feed):
                self.refused += 1
            elif self._place(consumer):
                key = (consumer.feed, consumer.name)
                self._announcers.setdefault(key, set()).add(heartbeat.status.nodeId)
        status = heartbeat.status
        if status.kind == DRAINER and status.feed and status.resolvedTS > 0:
            known = self._positions.get((status.feed, DRAINER_CONSUMER), 0)
            newest = max(known, status.resolvedTS)
            self._place(Consumer(DRAINER_CONSUMER, status.feed, newest))
        if status.kind == PUMP:  # any text may be pulled under, and subjects are made of a feed's
            self._no_longer_named(status.nodeId, status.epoch, frozenset(heartbeat.feeds))
            for feed, after_ts in heartbeat.feeds.items():
                if _is_a_feed(feed.partition("=")[0]) and self._has_room_for(feed):
                    self._pulled.setdefault(feed, {})[status.nodeId] = after_ts
                else:
                    self.refused += 1

    def _no_longer_named(self, node: str, epoch: int, feeds: frozenset[str]) -> None:
        """What a Pump named and names no more it has forgotten, told to or because nobody pulled it
        for long. (One that was started again may have lost its file: that is no word.)"""
        before, named = self._named.get(node, (epoch, frozenset()))
        self._named[node] = epoch, feeds
        for feed in named - feeds if before == epoch else ():
            pulled = self._pulled.get(feed, {})
            pulled.pop(node, None)
            if not pulled:
                self.forget_feed(feed)

    def announced_by(self, nodes: Set[str]) -> None:
        """Only these nodes are known. What another one told counts on, but it is nobody that an
        operator could let go: a consumer that it alone announced is removed by its own name."""
        for node in self._named.keys() - nodes:
            del self._named[node]
        for key, announcers in list(self._announcers.items()):
            announcers &= nodes
            if not announcers:
                del self._announcers[key]

    def forget_feed(self, feed: str) -> None:
        """No Pump speaks for it any more; one that still does brings it back."""
        self._pulled.pop(feed, None)
        self._kept_feeds.pop(feed, None)

    def put(self, consumer: Consumer) -> None:
        """Register or move one. Raises BadInput for the Drainers' name, a node's, and what is no
        name of a feed; Refused above MAX_CONSUMERS, or where what is kept would be larger than
        RECORD_BYTES."""
        checked_name(consumer.feed)
        self._no_node(consumer.feed, consumer.name)
        if not self._place(consumer):
            limits = f"{MAX_CONSUMERS} or, with all names, {RECORD_BYTES} bytes"
            raise Refused(
                f"{len(self._positions)} consumers are registered, of {limits}: remove one first"
            )

    def remove(self, feed: str, name: str) -> bool:
        """Stop waiting for it; False if it was not there. Without a name: for what is kept of the
        feed's pulls, and for Drainers, which are all gone. Raises BadInput for the Drainers' name
        and a node's: those go by an operator's order (`forget_reader`). One that comes back by
        announcing would come too late: the Pumps could have deleted meanwhile what it has not
        read."""
        if not name:
            self._positions.pop((feed, DRAINER_CONSUMER), None)
            self.forget_feed(feed)
            return True
        self._no_node(feed, name)
        return self._positions.pop((feed, name), None) is not None

    def _no_node(self, feed: str, name: str) -> None:
        """Raises BadInput."""
        if name == DRAINER_CONSUMER:
            raise BadInput(f"{DRAINER_CONSUMER!r} is what a feed's Drainers are called")
        if (feed, name) in self._announcers:
            raise BadInput(
                f"{name!r} is a node that reads feed {feed}",
                hint="choose another name for the consumer; `tidelog offline NODE` lets a node go",
            )

    def forget_pump(self, node: str) -> None:
        """A tombstoned Pump's word about feeds no longer counts."""
        self._named.pop(node, None)
        for pulled in self._pulled.values():
            pulled.pop(node, None)

    def forget_reader(self, status: NodeStatus, *, last: bool) -> None:
        """An operator took it out. A feed's Drainers count together, until the last one goes; so do
        an Applier and who stands by for it."""
        if status.kind == DRAINER:
            if last and status.feed:
                self._positions.pop((status.feed, DRAINER_CONSUMER), None)
                self.forget_feed(status.feed)
            return
        self._announcers.setdefault((status.feed, status.nodeId), set())
        for (feed, name), nodes in list(self._announcers.items()):
            nodes.discard(status.nodeId)
            if not nodes:
                self._announcers.pop((feed, name), None)
                self._positions.pop((feed, name), None)

    def _place(self, consumer: Consumer) -> bool:
        key = (consumer.feed, consumer.name)
        if key not in self._positions and not self._has_room_beside(consumer):
            self.refused += 1
            return False
        if key not in self._positions or not consumer.only_if_new:
            self._positions[key] = consumer.commit_ts
        return True

    def _has_room_beside(self, consumer: Consumer) -> bool:
        size = len(msgspec.json.encode(consumer))
        return len(self._positions) < MAX_CONSUMERS and self._bytes() + size <= RECORD_BYTES

    def _has_room_for(self, feed: str) -> bool:
        if feed in self._pulled or feed in self._kept_feeds:
            return True
        size = len(msgspec.json.encode({feed: TS_MAX}))
        return len(self._pulled) < MAX_CONSUMERS and self._bytes() + size <= RECORD_BYTES

    def _bytes(self) -> int:
        return len(msgspec.json.encode(self.kept()))

    @property
    def feeds(self) -> dict[str, int]:
        """Each feed's lowest pulled after_ts over the Pumps that announced it."""
        found = dict(self._kept_feeds)
        for feed, pulled in self._pulled.items():
            if pulled:
                found[feed] = min(pulled.values())
        return {feed: found[feed] for feed in sorted(found)}

    @property
    def all(self) -> list[Consumer]:
        keys = sorted(self._positions)
        return [Consumer(name, feed, self._positions[feed, name]) for feed, name in keys]

    @property
    def read(self) -> dict[str, int]:
        """Up to where each has read that is waited for, by a name for people. A feed that nobody
        speaks for counts with what the Pumps were last asked for."""
        found = {f"consumer {c.name} of feed {c.feed}": c.commit_ts for c in self.all}
        spoken_for = {feed for feed, _ in self._positions}
        for feed, ts in self.feeds.items():
            if feed not in spoken_for:
                found[f"feed {feed}, last pulled by a Drainer that is gone"] = ts
        return found

    @property
    def published_ts(self) -> int:
        """The furthest that a feed's Drainers were; 0 where none is known."""
        found = (ts for (_, name), ts in self._positions.items() if name == DRAINER_CONSUMER)
        return max(found, default=0)

    def safe_point(self) -> int:
        """Everything at or below it was consumed by all; TS_MAX if nobody is registered."""
        return min(self.read.values(), default=TS_MAX)

    def knows(self, feed: str, name: str) -> bool:
        return (feed, name) in self._positions

    def kept(self) -> Kept:
        return Kept(self.all, self.feeds)


def _is_a_feed(name: str) -> bool:
    try:
        checked_name(name)
    except BadInput:
        return False
    return True
