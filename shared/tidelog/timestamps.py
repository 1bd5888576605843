"""Timestamps of the oracle: `physical_ms << 18 | logical` (design section 6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec

LOGICAL_BITS = 18
LOGICAL_MAX = (1 << LOGICAL_BITS) - 1
TS_MAX = (1 << 63) - 1
Ts = Annotated[int, msgspec.Meta(ge=0, le=TS_MAX)]
"""Checked where a message is parsed."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def compose(physical_ms: int, logical: int = 0) -> int:
    """Build a timestamp from Unix milliseconds and a logical counter (0..2^18-1)."""
    return physical_ms << LOGICAL_BITS | logical


def physical_ms(ts: int) -> int:
    """Unix milliseconds of a timestamp."""
    return ts >> LOGICAL_BITS


def age_s(ts: int, wall_ms: int) -> float:
    """Seconds since a timestamp was allocated, by a wall clock; 0 if by that it is yet to come."""
    return max(0, wall_ms - physical_ms(ts)) / 1000


def parse_ts(text: str) -> int:
    """A timestamp as digits, or a moment in ISO 8601 (UTC, unless it names another zone): the last
    timestamp of its millisecond, so that "up to" has all of it. Raises ValueError."""
    if text.isdigit():
        ts = int(text)
        if ts > TS_MAX:
            raise ValueError(f"{text} is beyond any timestamp")
        return ts
    moment = datetime.fromisoformat(text)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    ms = (aware - EPOCH) // timedelta(milliseconds=1)
    if ms < 0:
        raise ValueError(f"{text} lies before 1970")
    return compose(ms, LOGICAL_MAX)


def logical(ts: int) -> int:
    """The counter within the millisecond."""
    return ts & LOGICAL_MAX


def moment(ts: int) -> str:
    """When a timestamp was allocated, UTC; empty for 0 and for what lies beyond any calendar."""
    if not ts:
        return ""
    try:
        return f"{datetime.fromtimestamp(physical_ms(ts) / 1000, UTC):%Y-%m-%d %H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return ""
