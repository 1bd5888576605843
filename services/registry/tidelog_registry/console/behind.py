"""How far behind the clock each node is, and a feed's three positions with it: a node's box, its
line in the table and the chart that it is a part of show one number. Pure.

A Pump is as far as it has resolved, the Drainer that leads as far as it has published, an Applier
as far as it has applied. *Resolved* is the lag of the Pump, *applied* that of the downstream, that
is furthest behind. Nobody is less behind than who it reads from was, when that one spoke later;
but an Applier whose downstream is a copy of a later moment than the feed has reached is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from tidelog.messages import PUMP, Nodes
from tidelog.positions import appliers, publisher, sources
from tidelog.timestamps import physical_ms
from tidelog_registry.console.lags import PATIENCE_MS, Heard, Key, Words
from tidelog_registry.console.shown import Lags

Lag = int | None
"""In ms; None while it is not known."""


class Behind(msgspec.Struct, frozen=True):
    """Who is not in `nodes` has no position that counts: a standby, who joins or has left."""

    nodes: dict[Key, Lag] = {}
    feeds: dict[str, Lags] = {}


def measure(found: Nodes, words: Words, heard: Mapping[str, Heard], clock_ms: int) -> Behind:
    """`heard`: by feed, the last marker or watermark, which come sooner than a heartbeat."""
    names = set(heard) | {node.feed for node in found.nodes if node.kind != PUMP}
    published = {name: _published(found, words, name, heard.get(name, Heard())) for name in names}
    passed = Heard()
    for one in published.values():
        passed = passed.later(one)
    nodes: dict[Key, Lag] = {}
    for pump in sources(found):
        nodes[pump.kind, pump.nodeId] = words.of(pump).later(passed).lag_ms(clock_ms)
    resolved = _worst(nodes.values())
    feeds: dict[str, Lags] = {}
    for name in names:
        lag = _not_before(resolved, published[name].lag_ms(clock_ms))
        if (leads := publisher(found, name)) is not None:
            nodes[leads.kind, leads.nodeId] = lag
        copies: dict[Key, Lag] = {
            (node.kind, node.nodeId): _not_before(lag, words.of(node).lag_ms(clock_ms))
            for node in appliers(found, name)
        }
        nodes |= copies
        feeds[name] = Lags(resolved, lag, _worst(copies.values()))
    return Behind(nodes, feeds)


def _published(found: Nodes, words: Words, feed: str, heard: Heard) -> Heard:
    """What one further down the way has passed was reached, though nobody has told so yet."""
    leads = publisher(found, feed)
    known = heard if leads is None else words.of(leads).later(heard)
    for node in appliers(found, feed):
        word = words.of(node)
        if physical_ms(word.ts) - physical_ms(known.ts) <= PATIENCE_MS:
            known = known.later(word)
    return known


def _not_before(upstream: Lag, own: Lag) -> Lag:
    if own is None or upstream is None or upstream - own > PATIENCE_MS:
        return own
    return max(upstream, own)


def _worst(lags: Iterable[Lag]) -> Lag:
    """None as soon as one is not known, and of nobody."""
    known: list[int] = []
    for lag in lags:
        if lag is None:
            return None
        known.append(lag)
    return max(known, default=None)
