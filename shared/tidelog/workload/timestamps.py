"""Timestamps, however long the oracle is away."""

from __future__ import annotations

from tidelog.errors import BadInput, Forbidden, TidelogError, Unauthenticated, Untrusted
from tidelog.ports import Clock, Oracle

RETRY_S = 0.2
FOR_GOOD = (BadInput, Forbidden, Unauthenticated, Untrusted)
"""Asking again changes nothing."""


async def fresh(oracle: Oracle, clock: Clock, at_least: int) -> int:
    """A timestamp above `at_least`. Raises what is for good."""
    while True:
        try:
            ts = await oracle.fresh(at_least)
        except FOR_GOOD:
            raise
        except TidelogError:
            await clock.sleep(RETRY_S)
            continue
        assert ts > at_least, f"the oracle went back: {ts} after {at_least}"
        return ts
