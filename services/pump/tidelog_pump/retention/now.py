"""What time it is, for retention: never later than somebody else's word of it. Pure.

One wrong clock must not delete what nobody has read. W is the word of the oracle, or under `follow`
of the binlogs; from there on the monotonic clock counts, which nobody sets. So the age of a segment
is at most what this process can know. It may be behind the truth, after a restart under `follow` or
while the oracle is silent: then things stay for longer.
"""

from __future__ import annotations

from tidelog.timestamps import physical_ms


class Now:
    def __init__(self) -> None:
        self._known_ms = 0.0
        self._at_s = 0.0

    def saw(self, high_ts: int, monotonic_s: float) -> None:
        """W is this now; the more often, the closer to the truth."""
        passed_ms = (monotonic_s - self._at_s) * 1000 if self._known_ms else 0.0
        self._known_ms = max(self._known_ms + passed_ms, physical_ms(high_ts))
        self._at_s = monotonic_s

    def ms(self, wall_ms: int) -> int:
        """As of the last `saw`."""
        return min(wall_ms, int(self._known_ms))

    def latest_ms(self, wall_ms: int) -> int:
        """It may be as late as this, by whoever says the most."""
        return max(wall_ms, int(self._known_ms))

    def ahead_s(self, wall_ms: int) -> float:
        """How far this machine's clock is ahead of what is known; 0 while nothing is."""
        return max(0.0, (wall_ms - self._known_ms) / 1000) if self._known_ms else 0.0
