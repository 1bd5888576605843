"""How far somebody is, sampled while he works.

The first sample is taken when his process says that it is ready: what it costs to start Python is
not counted. `speed` counts what it takes to connect and to fill the first batch, `pace` doesn't.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple

STEP_S = 0.02
FEWEST = 30
"""Samples of a pace: of fewer it says how often somebody looked."""
LONG_S = 5.0
"""A pace that has been followed for so long is known."""


class Sample(NamedTuple):
    at: float
    done: int


class TooLittle(ValueError):
    """All was done before it had been looked at often enough."""


def speed(samples: Sequence[Sample]) -> float:
    """Units per second, from the first sample to the last. Raises TooLittle when there are not
    two."""
    if len(samples) < 2:
        raise TooLittle("all was done before the first look")
    first, last = samples[0], samples[-1]
    return (last.done - first.done) / (last.at - first.at)


def pace(samples: Sequence[Sample]) -> float:
    """Units per second, from the first sample with anything done to the last. Raises TooLittle
    when there are fewer than FEWEST of them."""
    begun = [sample for sample in samples if sample.done]
    if len(begun) < FEWEST:
        raise TooLittle(f"all was done after {len(begun)} looks, and a pace needs {FEWEST}")
    return speed(begun)


def is_enough(samples: Sequence[Sample]) -> bool:
    """For a pace, if work was done in all of them."""
    return len(samples) >= FEWEST and samples[-1].at - samples[0].at >= LONG_S


async def follow(
    done: Callable[[], Awaitable[int]],
    total: int,
    check: Callable[[], None],
    timeout_s: float,
) -> AsyncGenerator[Sample, None]:
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
            await asyncio.sleep(STEP_S)
