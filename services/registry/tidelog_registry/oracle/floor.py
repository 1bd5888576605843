"""Below what no new timestamp may lie: what those say who have timestamps from an oracle (I9).

A Pump's W counts whatever it is: nothing but an oracle's answer moves it, and a timestamp given
below it would be lost. All else is a word that anybody on the bus can make a Pump or a Drainer say,
so it counts only up to the allowed skew ahead of this clock: else one of them would push the oracle
away from the time for good. Readers don't count: they can't have seen more than was published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidelog.messages import DRAINER, DRAINER_CONSUMER, PUMP, Consumer, NodeStatus


def floor_of(
    statuses: Sequence[NodeStatus],
    consumers: Iterable[Consumer],
    feeds: Mapping[str, int],
    limit: int,
) -> tuple[int, dict[str, int]]:
    """The floor, and whose words above `limit` were left out of it."""
    claims = {f"feed {feed}": ts for feed, ts in feeds.items()}
    for consumer in consumers:
        if consumer.name == DRAINER_CONSUMER:
            claims[f"the Drainers of {consumer.feed}"] = consumer.commit_ts
    for status in statuses:
        if status.kind in (PUMP, DRAINER):
            said = max(status.maxCommitTS, status.resolvedTS, status.logTS)
            claims[f"{status.kind} {status.nodeId}"] = said
    far = {who: ts for who, ts in claims.items() if ts > limit}
    known = [ts for who, ts in claims.items() if who not in far]
    known += [status.highTS for status in statuses if status.kind == PUMP]
    return max(known, default=0), far
