"""Commits and Rollbacks that no Pump has acked yet. Owned by the client; outlives its actors."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

from tidelog.errors import TidelogError

MAX_BACKLOG = 1 << 16

RETRY_FIRST_S = 1.0
RETRY_MAX_S = 10.0
"""A.2: a Commit is tried again each second; we slow down when that doesn't help."""


class Finish:
    """One Commit or Rollback on its way to one Pump. `others`: who gets a Rollback once it is
    acked; `counted`: it entered the backlog by waiting for room; `done` is called once, with None
    when acked, or the error it was given up for."""

    __slots__ = ("counted", "deadline", "done", "node", "others", "payload", "start_ts", "tries")

    def __init__(
        self,
        start_ts: int,
        payload: bytes,
        node: str,
        deadline: float,
        *,
        others: list[str] | None = None,
        counted: bool = False,
        done: Callable[[TidelogError | None], None] | None = None,
    ) -> None:
        self.start_ts = start_ts
        self.payload = payload
        self.node = node
        self.others = others or []
        self.counted = counted
        self.deadline = deadline
        self.done = done
        self.tries = 0

    def delay(self) -> float:
        """Seconds until the next try."""
        return float(min(RETRY_FIRST_S * 2.0 ** max(0, self.tries - 5), RETRY_MAX_S))


class Backlog:
    """Bounded by count: a writer of Commits waits when it is full (I8)."""

    def __init__(self, limit: int = MAX_BACKLOG) -> None:
        self._room = asyncio.Semaphore(limit)
        self._waiting: list[tuple[float, int, Finish]] = []
        self._number = 0
        self._drained: asyncio.Future[None] | None = None
        self.open = 0
        """Commits and Rollbacks neither acked nor given up, the ones being sent included."""

    async def enter(self) -> None:
        await self._room.acquire()
        self.open += 1

    def enter_now(self) -> None:
        """Without waiting: a follow-up of one that is leaving."""
        self.open += 1

    def leave(self, *, counted: bool) -> None:
        """`counted`: it came in by `enter`."""
        self.open -= 1
        if counted:
            self._room.release()
        if self.open == 0 and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def postpone(self, item: Finish, due: float) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (due, self._number, item))

    def take_due(self, now: float) -> list[Finish]:
        due: list[Finish] = []
        while self._waiting and self._waiting[0][0] <= now:
            due.append(heapq.heappop(self._waiting)[2])
        return due

    async def drained(self) -> None:
        """Wait until nothing is open."""
        while self.open:
            if self._drained is None or self._drained.done():
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)
