"""How far somebody is, sampled while he works; the speed between the first and the last sample.

What comes before the first sample (a process's start, its registration) is not counted.
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
    """Units per second, from the first sample to the last. Raises ValueError when there are
    not two: then the work was too little to be measured."""
    if len(samples) < 2:
        raise ValueError("too little work to be measured")
    first, last = samples[0], samples[-1]
    return (last.done - first.done) / (last.at - first.at)


async def follow(
    done: Callable[[], Awaitable[int]], total: int, check: Callable[[], None], timeout_s: float
) -> AsyncIterator[Sample]:
    """Each step forward of `done`, from the first on, until it is `total`; `check` raises when it
    never will be."""
    last = 0
    async with asyncio.timeout(timeout_s):
        while last < total:
            check()
            now = await done()
            if now > last:
                last = now
                yield Sample(time.perf_counter(), now)
            await asyncio.sleep(STEP_S)
