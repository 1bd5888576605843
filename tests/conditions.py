"""Waiting for conditions in tests, with deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], deadline_s: float = 10.0) -> None:
    """Look each 10 ms. Raises TimeoutError."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 (whatever the condition, nobody tells us of it)
            await asyncio.sleep(0.01)
