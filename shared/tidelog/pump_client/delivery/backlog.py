"""Commits and Rollbacks that no Pump has acked yet. Owned by the client; outlives its actors."""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable

from tidelog.errors import TidelogError

MAX_BACKLOG = 1 << 16
MAX_BACKLOG_BYTES = 64 << 20

RETRY_FIRST_S = 1.0
RETRY_MAX_S = 10.0
"""A.2: a Commit is tried again each second; we slow down when that doesn't help."""


class Finish:
    """One Commit or Rollback on its way to one Pump. `others`: who gets a Rollback once it is
    acked; `accepted`: it entered the backlog, and will be sent whatever becomes of its caller;
    `done` is called once, with None when acked, or the error it was given up for."""

    __slots__ = (
        "accepted",
        "counted",
        "deadline",
        "done",
        "node",
        "others",
        "payload",
        "start_ts",
        "tries",
    )

    def __init__(
        self,
        start_ts: int,
        payload: bytes,
        node: str,
        deadline: float,
        *,
        others: list[str] | None = None,
        done: Callable[[TidelogError | None], None] | None = None,
    ) -> None:
        self.start_ts = start_ts
        self.payload = payload
        self.node = node
        self.others = others or []
        self.deadline = deadline
        self.done = done
        self.accepted = False
        self.counted = False
        self.tries = 0

    def delay(self) -> float:
        """Seconds until the next try."""
        return float(min(RETRY_FIRST_S * 2.0 ** max(0, self.tries - 5), RETRY_MAX_S))


class Backlog:
    """Bounded by count and bytes: a writer of Commits waits, in order of arrival, when it is full
    (I8). Follow-ups don't wait; there are at most as many for each as there are Pumps."""

    def __init__(self, limit: int = MAX_BACKLOG, max_bytes: int = MAX_BACKLOG_BYTES) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._count = self._bytes = 0
        self._gates: deque[tuple[asyncio.Future[None], Finish]] = deque()
        self._waiting: list[tuple[float, int, Finish]] = []
        self._number = 0
        self._drained: asyncio.Future[None] | None = None
        self.open = 0
        """Commits and Rollbacks neither acked nor given up, the ones being sent included."""

    @property
    def bytes(self) -> int:
        return self._bytes

    async def enter(self, item: Finish) -> None:
        """Waits for room. Cancelled, it has not entered."""
        if self.try_enter(item):
            return
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gates.append((gate, item))
        try:
            await gate
        except asyncio.CancelledError:
            if item.accepted:
                self.leave(item)
                item.accepted = False
            elif (gate, item) in self._gates:
                self._gates.remove((gate, item))
                self._let_in()
            raise

    def try_enter(self, item: Finish) -> bool:
        """Without waiting; False when there is no room, or others wait for it."""
        if self._gates or not self._has_room(item):
            return False
        self._take(item)
        return True

    def enter_now(self, item: Finish) -> None:
        """Without waiting: a follow-up of one that has entered."""
        item.accepted = True
        self.open += 1

    def leave(self, item: Finish) -> None:
        self.open -= 1
        if item.counted:
            self._count -= 1
            self._bytes -= len(item.payload)
            self._let_in()
        if self.open == 0 and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _has_room(self, item: Finish) -> bool:
        """One that is larger than all the room gets in alone."""
        if not self._count:
            return True
        return self._count < self._limit and self._bytes + len(item.payload) <= self._max_bytes

    def _take(self, item: Finish) -> None:
        item.accepted = item.counted = True
        self.open += 1
        self._count += 1
        self._bytes += len(item.payload)

    def _let_in(self) -> None:
        while self._gates and self._has_room(self._gates[0][1]):
            gate, item = self._gates.popleft()
            if not gate.done():
                self._take(item)
                gate.set_result(None)

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
