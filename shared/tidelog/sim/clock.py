"""The virtual Clock port, with a skew of its own per node."""

from __future__ import annotations

import asyncio

START_MS = 1_795_219_200_000
"""Wall time at virtual second 0: 2026-11-21 00:00 UTC."""


class SimClock:
    def __init__(self, loop: asyncio.AbstractEventLoop, *, skew_ms: int = 0) -> None:
        self._loop = loop
        self.skew_ms = skew_ms

    def wall_ms(self) -> int:
        return START_MS + self.skew_ms + int(self._loop.time() * 1000)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
