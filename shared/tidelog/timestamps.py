"""Timestamps of the oracle: `physical_ms << 18 | logical` (design section 6)."""

from __future__ import annotations

LOGICAL_BITS = 18
LOGICAL_MAX = (1 << LOGICAL_BITS) - 1
TS_MAX = (1 << 63) - 1


def compose(physical_ms: int, logical: int = 0) -> int:
    """Build a timestamp from Unix milliseconds and a logical counter (0..2^18-1)."""
    return physical_ms << LOGICAL_BITS | logical


def physical_ms(ts: int) -> int:
    """Unix milliseconds of a timestamp."""
    return ts >> LOGICAL_BITS


def age_s(ts: int, wall_ms: int) -> float:
    """Seconds since a timestamp was allocated, by a wall clock; 0 if by that it is yet to come."""
    return max(0, wall_ms - physical_ms(ts)) / 1000


def logical(ts: int) -> int:
    """The counter within the millisecond."""
    return ts & LOGICAL_MAX
