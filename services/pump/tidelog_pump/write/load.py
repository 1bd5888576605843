"""How well this Pump can take writes, as one number for the client's score strategy. Pure.

`score` in a Pump's status (seed 000, "Pump status definition", leaves its making open) weighs free
space by how the disk bears what is written to it now: how long a write with its sync took, and for
what share of the time there was one under way, both over the last minute or so.
"""

from __future__ import annotations

import math

BEST = 100
MEMORY_S = 20.0
"""A write this long ago counts 1/e of one now."""
SLOW_S = 0.05
"""Where a write takes so long, half as much is sent as where it takes no time."""


class Load:
    """Fed by the writer, read with each heartbeat. Times are monotonic seconds. `room`: the part of
    the disk, without what is kept free, that is free; below 0 Prewrites are refused."""

    def __init__(self) -> None:
        self.room = 0.0
        self.binlogs = 0
        """Made durable since the Pump began."""
        self._seconds = 0.0
        self._writes = 0.0
        self._at = 0.0

    def wrote(self, began: float, done: float) -> None:
        """One write with its sync."""
        self._fade(done)
        self._seconds += max(0.0, done - began)
        self._writes += 1.0

    def score(self, now: float) -> int:
        """0: no Prewrites, please. Else 1 to BEST."""
        self._fade(now)
        busy = min(1.0, self._seconds / MEMORY_S)
        return score(self.room, busy, self._seconds / max(1.0, self._writes))

    def _fade(self, now: float) -> None:
        left = math.exp(-max(0.0, now - self._at) / MEMORY_S)
        self._seconds, self._writes, self._at = self._seconds * left, self._writes * left, now


def score(room: float, busy: float, write_s: float) -> int:
    """Of the free share of the disk, the share of time spent writing, and the mean write: half of
    it while the disk is always busy, half again where a write takes SLOW_S."""
    if room <= 0:
        return 0
    worth = min(1.0, room) * (1 - busy / 2) / (1 + write_s / SLOW_S)
    return max(1, round(BEST * worth))
