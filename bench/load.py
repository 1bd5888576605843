"""Closed loops: so many callers, each with one call under way."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bench.figure import Spread, spread

Step = Callable[[list[float]], Awaitable[None]]
"""One turn of a caller; appends the seconds of each call it made."""


class Load(NamedTuple):
    """`rate`: calls per second."""

    rate: float
    spread: Spread


async def closed_loop(in_flight: int, seconds: float, step: Step, *, warm_up: float = 0.5) -> Load:
    """Run `step` again and again in `in_flight` tasks. Calls of the first `warm_up` seconds are not
    counted; a turn that is under way at the end counts, with the time until its end."""
    loop = asyncio.get_running_loop()
    counting = loop.time() + warm_up
    until = counting + seconds
    taken: list[float] = []
    before: list[float] = []

    async def caller() -> None:
        while loop.time() < until:
            await step(taken if loop.time() >= counting else before)

    async with asyncio.TaskGroup() as group:
        for _ in range(in_flight):
            group.create_task(caller())
    return Load(len(taken) / (loop.time() - counting), spread(taken))


def timed(call: Callable[[], Awaitable[object]]) -> Step:
    """A turn of one call."""

    async def step(taken: list[float]) -> None:
        began = time.perf_counter()
        await call()
        taken.append(time.perf_counter() - began)

    return step
