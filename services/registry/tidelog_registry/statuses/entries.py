"""Which entries of the status bucket are due to be written. Pure; times are monotonic seconds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.messages import NodeStatus
from tidelog.node_statuses import STATUS_TTL_S, status_key

RENEW_S = STATUS_TTL_S / 3
"""A living node's entry is as old at most: two renewals may fail before it ends."""
BATCH = 500


class StatusEntries:
    """Remembers what it was told is written."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[NodeStatus, float]] = {}

    def due(self, statuses: Sequence[NodeStatus], now: float) -> dict[str, NodeStatus]:
        """At most BATCH entries by key: first what is worth telling at once, then what lives and
        was not renewed for long. One that no longer lives ends by itself; one that this registry
        has not heard of keeps the entry that an earlier one wrote."""
        heard = {status_key(status): status for status in statuses if status.updateTS}
        self._written = {key: was for key, was in self._written.items() if key in heard}
        news, old = [], []
        for key, status in heard.items():
            was, at = self._written.get(key, (None, now))
            if was is None or _face(was) != _face(status):
                news.append(key)
            elif status.isAlive and now - at >= RENEW_S:
                old.append((at, key))
        keys = [*news, *(key for _, key in sorted(old))]
        return {key: heard[key] for key in keys[:BATCH]}

    def wrote(self, entries: dict[str, NodeStatus], now: float) -> None:
        self._written |= {key: (status, now) for key, status in entries.items()}

    def forget(self) -> None:
        """The bucket is not what was written."""
        self._written.clear()


def _face(status: NodeStatus) -> NodeStatus:
    """What is worth telling at once: all but the positions and the wording of its complaints."""
    return msgspec.structs.replace(
        status,
        score=0,
        maxCommitTS=0,
        updateTS=0,
        highTS=0,
        logTS=0,
        resolvedTS=0,
        open=0,
        counts={},
        detail=dict.fromkeys(status.detail, ""),
    )
