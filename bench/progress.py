"""How far somebody is, sampled while he works.

The first sample is taken when his process says that it is ready: what it costs to start Python is
not counted, what it takes to connect and to fill the first batch is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import NamedTuple

STEP_S = 0.02


class Sample(NamedTuple):
    at: float
    done: int


def speed(samples: Sequence[Sample]) -> float:
    """Units per second, from the first sample to the last. Raises ValueError when there are not
    two: then all was done before anybody could look."""
    if len(samples) < 2:
        raise ValueError("all was done before the first look")
    first, last = samples[0], samples[-1]
    return (last.done - first.done) / (last.at - first.at)


async def follow(
    done: Callable[[], Awaitable[int]],
    total: int,
    check: Callable[[], None],
    timeout_s: float,
    step_s: float = STEP_S,
) -> AsyncIterator[Sample]:
    """`done` now, and each step forward until it is `total`; `check` raises when it never will be.
    Raises TimeoutError."""
    last = -1
    async with asyncio.timeout(timeout_s):
        while last < total:
            check()
            now = await done()
            if now > last:
                last = now
                yield Sample(time.perf_counter(), now)
            await asyncio.sleep(step_s)
