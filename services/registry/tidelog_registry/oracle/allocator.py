"""The pure part of the oracle: strictly increasing timestamps below a durable bound (I9)."""

from __future__ import annotations

from tidelog.timestamps import compose

AHEAD_MS = 3000
"""The bound lies this far ahead of the wall clock."""
RENEW_MS = 1500
"""Nearer than this, it is extended."""
SLACK = compose(50)
"""The window when the clock stands behind what was given: 13 million timestamps. Small, so that
restarts one after the other don't run away from the clock."""
MAX_COUNT = 1 << 18


class Allocator:
    """Whatever the wall clock does, `take` returns more than ever before, and at most `bound`."""

    def __init__(self, floor: int) -> None:
        """Nothing at or below `floor` is given: the bound found on start, every Pump's W, the last
        published position."""
        self.last = floor
        self.bound = floor

    def take(self, count: int, wall_ms: int) -> int | None:
        """The last of `count` consecutive timestamps; None if the bound has to be extended."""
        first = max(self.last + 1, compose(wall_ms))
        last = first + count - 1
        if last > self.bound:
            return None
        self.last = last
        return last

    def raise_floor(self, floor: int) -> None:
        self.last = max(self.last, floor)

    def target(self, wall_ms: int) -> int:
        """The bound to make durable next; never below the present one."""
        return max(self.bound, compose(wall_ms + AHEAD_MS), self.last + SLACK)

    def wants_more(self, wall_ms: int) -> bool:
        """Is it time to extend, before asks have to wait?"""
        return self.bound < max(compose(wall_ms + RENEW_MS), self.last + SLACK // 2)

    def extend(self, bound: int) -> None:
        """`bound` is durable now."""
        self.bound = max(self.bound, bound)
