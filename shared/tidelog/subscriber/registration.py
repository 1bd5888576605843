"""A subscriber that the Pumps wait for: a registered consumer (design section 7)."""

from __future__ import annotations

import structlog

from tidelog.ask_registry import ask
from tidelog.errors import Overloaded, Unavailable
from tidelog.messages import Consumer, SafePoint, SafePointRequest
from tidelog.ports import Bus, Clock

log = structlog.get_logger()

TELL_S = 2.0
"""It is told at most so often; what the Pumps keep meanwhile does no harm."""
TIMEOUT_S = 2.0
FIRST_TIMEOUT_S = 10.0
RETRY_S = 0.3


class Registration:
    """`name` is the consumer's, one for each application of a feed."""

    def __init__(self, bus: Bus, clock: Clock, cluster: str, feed: str, name: str) -> None:
        self._bus = bus
        self._clock = clock
        self._cluster = cluster
        self._feed = feed
        self._name = name
        self._done = -1
        self._told = -1
        self._told_at = 0.0
        self._removed = False

    async def begin(self, commit_ts: int) -> None:
        """Registered when it returns. Raises Unavailable, and what the registry refuses with."""
        deadline = self._clock.monotonic() + FIRST_TIMEOUT_S
        while True:
            try:
                await self._tell(commit_ts, FIRST_TIMEOUT_S)
                return
            except Overloaded:
                if self._clock.monotonic() >= deadline:
                    raise
                await self._clock.sleep(RETRY_S)

    async def move(self, commit_ts: int, *, now: bool = False) -> None:
        """Everything at or below it is done; the registry hears of it now and then, and always of
        the last one. One that is unreachable, or has too much to do, is told later; one that was
        told to forget the consumer is told nothing."""
        if self._removed:
            return
        self._done = commit_ts
        waited = self._clock.monotonic() - self._told_at
        if self._told == commit_ts or not (now or self._told < 0 or waited >= TELL_S):
            return
        try:
            await self._tell(commit_ts, TIMEOUT_S)
        except (Unavailable, Overloaded) as error:
            self._told_at = self._clock.monotonic()
            log.warning("the consumer's position is not told", why=error.message)

    async def end(self) -> None:
        """It stays registered: the Pumps keep what it has not read."""
        if self._done >= 0:
            await self.move(self._done, now=True)

    async def remove(self) -> None:
        """Nobody waits for it any more. Raises Unavailable, Overloaded: ask again."""
        self._removed = True
        gone = Consumer(self._name, self._feed, 0)
        await self._ask(SafePointRequest(gone, remove=True), FIRST_TIMEOUT_S)

    async def _tell(self, commit_ts: int, timeout_s: float) -> None:
        await self._ask(SafePointRequest(Consumer(self._name, self._feed, commit_ts)), timeout_s)
        self._told, self._told_at = commit_ts, self._clock.monotonic()

    async def _ask(self, request: SafePointRequest, timeout_s: float) -> None:
        await ask(self._bus, self._cluster, "safepoint", request, SafePoint, timeout_s=timeout_s)
