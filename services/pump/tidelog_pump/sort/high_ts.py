"""W, the largest timestamp known to have been allocated (I9; design section 7). Pure."""

from __future__ import annotations

from tidelog.timestamps import physical_ms


class HighTs:
    """W under one of the two rules.

    `follow`: nobody is asked; a timestamp at most `skew_ms` ahead of the wall clock moves W.
    `embedded`: only the oracle's answers do; what a binlog or a reader claims above the last
    answer is remembered in `wanted` until the oracle was asked.
    """

    def __init__(self, *, follow: bool, skew_ms: int, value: int = 0) -> None:
        self.follow = follow
        self.value = value
        self.wanted = 0
        self.refused = 0
        self._skew_ms = skew_ms

    def claim(self, ts: int, wall_ms: int) -> bool:
        """Somebody says that `ts` was allocated. Returns whether W covers it now."""
        if ts <= self.value:
            return True
        if not self.follow:
            self.wanted = max(self.wanted, ts)
            return False
        if not self.is_near(ts, wall_ms):
            self.refused += 1
            return False
        self.value = ts
        return True

    def indexed(self, value: int) -> None:
        """W in log order, as whoever indexes it has it. Under `follow` each timestamp there was
        believed or refused by the clock as it came, and not by that of now."""
        if self.follow:
            self.value = max(self.value, value)

    def is_near(self, ts: int, wall_ms: int) -> bool:
        """Not further ahead of the wall clock than clocks may differ."""
        return physical_ms(ts) <= wall_ms + self._skew_ms

    def answer(self, ts: int, asked: int) -> None:
        """The oracle's fresh timestamp, asked for because of `asked`: what lies above it now was
        never allocated, is counted, and asked for no more."""
        self.value = max(self.value, ts)
        if asked > ts:
            self.refused += 1
        if self.wanted <= max(self.value, asked):
            self.wanted = 0
