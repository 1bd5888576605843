"""A bounded queue from many senders to one actor (design section 3).

Bounded by count and by bytes; a single message above the byte limit is taken when the box is empty.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

from tidelog.errors import ActorStopped

M = TypeVar("M")


class Mailbox(Generic[M]):
    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._queue: deque[tuple[M, int]] = deque()
        self._bytes = 0
        self._putters: deque[asyncio.Future[None]] = deque()
        self._taker: asyncio.Future[None] | None = None
        self._closed = False

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def closed(self) -> bool:
        return self._closed

    def _has_room(self, size: int) -> bool:
        if not self._queue:
            return True
        return len(self._queue) < self._max_count and self._bytes + size <= self._max_bytes

    def try_put(self, message: M, size: int) -> bool:
        """Put without waiting; False when full. Raises ActorStopped when closed."""
        if self._closed:
            raise ActorStopped("the actor takes no more messages")
        if self._putters or not self._has_room(size):
            return False
        self._push(message, size)
        return True

    async def put(self, message: M, size: int) -> None:
        """Put, waiting in order of arrival while full. Raises ActorStopped when closed."""
        if self.try_put(message, size):
            return
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._putters.append(gate)
        try:
            while True:
                await gate
                if self._closed:
                    raise ActorStopped("the actor takes no more messages")
                if self._has_room(size):
                    break
                gate = asyncio.get_running_loop().create_future()
                self._putters.appendleft(gate)
            self._push(message, size)
        finally:
            if gate in self._putters:
                self._putters.remove(gate)
            self._wake_putter()

    def _push(self, message: M, size: int) -> None:
        self._queue.append((message, size))
        self._bytes += size
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    def _wake_putter(self) -> None:
        while self._putters and (self._closed or self._has_room(0)):
            gate = self._putters.popleft()
            if not gate.done():
                gate.set_result(None)
                return

    async def take(self, max_count: int, timeout_s: float | None) -> list[M]:
        """All that waits, at most `max_count`; waits for the first. Empty on time-out or close."""
        if not self._queue and not self._closed:
            loop = asyncio.get_running_loop()
            self._taker = loop.create_future()
            timer = None if timeout_s is None else loop.call_later(timeout_s, self._time_out)
            try:
                await self._taker
            finally:
                if timer is not None:
                    timer.cancel()
                self._taker = None
        batch: list[M] = []
        while self._queue and len(batch) < max_count:
            message, size = self._queue.popleft()
            self._bytes -= size
            batch.append(message)
        self._wake_putter()
        return batch

    def _time_out(self) -> None:
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)

    def clear(self) -> None:
        """Nobody is left to take what is queued. It goes at once, not when a collector comes: it
        may be as much as a mailbox holds."""
        self._queue.clear()
        self._bytes = 0

    def close(self) -> None:
        """Refuse new messages; what is queued may still be taken."""
        self._closed = True
        self._time_out()
        while self._putters:
            gate = self._putters.popleft()
            if not gate.done():
                gate.set_result(None)
