"""How far behind the clock each node is, and a feed's three positions with it: a node's box, its line
in the table and the chart that it is a part of show one number. Pure.

A Pump is as far as it has resolved, the Drainer that leads as far as it has published, an Applier as
far as it has applied. *Resolved* is the lag of the Pump, *applied* that of the downstream, that is
furthest behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidelog.messages import PUMP, Nodes
from tidelog.positions import appliers, publisher, sources
from tidelog_registry.console.lags import Heard, Key, Words
from tidelog_registry.console.shown import Lags


class Behind(msgspec.Struct, frozen=True):
    """In ms. Who is not in `nodes` has no position that counts: a standby, who joins or has left;
    None: it is not known."""

    nodes: dict[Key, int | None] = {}
    resolved: int | None = None
    feeds: dict[str, tuple[int | None, int | None]] = {}
    """What is published, and what is applied."""

    def lags(self, feed: str) -> Lags:
        return Lags(self.resolved, *self.feeds.get(feed, (None, None)))


def measure(found: Nodes, words: Words, heard: Mapping[str, Heard], clock_ms: int) -> Behind:
    """`heard`: by feed, the last marker or watermark, which come sooner than a heartbeat. What one
    further down the way has passed was reached, though nobody has told so yet."""
    nodes: dict[Key, int | None] = {}
    feeds: dict[str, tuple[int | None, int | None]] = {}
    passed = Heard()
    for feed in set(heard) | {node.feed for node in found.nodes if node.kind != PUMP}:
        published = heard.get(feed, Heard())
        copies = appliers(found, feed)
        for node in copies:
            applied = words.of(node)
            nodes[node.kind, node.nodeId] = applied.lag_ms(clock_ms)
            published = published.later(applied)
        if (leads := publisher(found, feed)) is not None:
            published = words.of(leads).later(published)
            nodes[leads.kind, leads.nodeId] = published.lag_ms(clock_ms)
        feeds[feed] = (
            published.lag_ms(clock_ms),
            _worst(nodes[node.kind, node.nodeId] for node in copies),
        )
        passed = passed.later(published)
    pumps = sources(found)
    for node in pumps:
        nodes[node.kind, node.nodeId] = words.of(node).later(passed).lag_ms(clock_ms)
    return Behind(nodes, _worst(nodes[node.kind, node.nodeId] for node in pumps), feeds)


def _worst(lags: Iterable[int | None]) -> int | None:
    """None as soon as one is not known, and of nobody."""
    known: list[int] = []
    for lag in lags:
        if lag is None:
            return None
        known.append(lag)
    return max(known, default=None)
