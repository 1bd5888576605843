"""`tidelog wait`: return once the downstream holds everything up to a commit_ts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from tidelog.errors import DeadlineExceeded, Unavailable
from tidelog.ports import Bus
from tidelog.positions import applied_ts
from tidelog_cli.connect import nodes

POLL_S = 0.1


async def applied(
    bus: Bus,
    cluster: str,
    feed: str,
    commit_ts: int,
    timeout_s: float,
    on_move: Callable[[int], None],
) -> int:
    """The applied position, at or above `commit_ts`. Raises DeadlineExceeded."""
    reached = 0
    try:
        async with asyncio.timeout(timeout_s):
            while reached < commit_ts:
                with contextlib.suppress(Unavailable):
                    reached = max(reached, applied_ts(await nodes(bus, cluster), feed))
                    on_move(reached)
                if reached < commit_ts:
                    await asyncio.sleep(POLL_S)
    except TimeoutError:
        raise DeadlineExceeded(
            f"the downstream holds everything up to {reached}, not yet {commit_ts}",
            hint="`tidelog status` shows who is waited for",
        ) from None
    return reached
