"""Many callers' timestamps in one request: what the oracles that are asked have in common."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque

from tidelog.errors import TidelogError

MAX_COUNT = 1 << 16


class _Caller:
    """One call: how many timestamps it wants, and its turn: an answer, or None = you lead now."""

    __slots__ = ("count", "turn")

    def __init__(self, count: int) -> None:
        self.count = count
        self.turn: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()


class BatchedOracle(ABC):
    """`ports.Oracle`: one request is in flight; whoever calls meanwhile waits for the next one,
    which asks for all of them at once. So every timestamp is allocated after its call began, and
    no two are equal.
    """

    def __init__(self) -> None:
        self._leader: _Caller | None = None
        self._waiting: deque[_Caller] = deque()

    @abstractmethod
    async def _ask(self, total: int) -> int:
        """The last of `total` consecutive ones allocated now; never called while it runs. Raises
        Unavailable."""

    async def fresh(self, at_least: int = 0) -> int:
        """A timestamp allocated now; the caller checks it. Raises Unavailable."""
        return await self.take(1)

    async def take(self, count: int) -> int:
        """The last of `count` (1..2^16) consecutive ones allocated now. Raises Unavailable."""
        if not 1 <= count <= MAX_COUNT:
            raise ValueError(f"{count} timestamps at once; 1 to {MAX_COUNT} are possible")
        caller = _Caller(count)
        try:
            if self._leader is None:
                self._leader = caller
            else:
                self._waiting.append(caller)
                answer = await caller.turn
                if answer is not None:
                    return answer
            return await self._lead(caller)
        finally:
            if self._leader is caller:
                self._hand_over()
            elif caller in self._waiting:
                self._waiting.remove(caller)
            del caller  # its error knows this frame: a cycle for each call that fails

    def _hand_over(self) -> None:
        """To the next who still waits: one that was cancelled may not have left the line yet."""
        self._leader = None
        while self._waiting and self._leader is None:
            following = self._waiting.popleft()
            if not following.turn.done():
                self._leader = following
                following.turn.set_result(None)

    def _followers(self, room: int) -> list[_Caller]:
        """Those who wait and whose counts fit into `room`, in order."""
        found = []
        while self._waiting and self._waiting[0].count <= room:
            caller = self._waiting.popleft()
            if not caller.turn.done():
                found.append(caller)
                room -= caller.count
        return found

    async def _lead(self, leader: _Caller) -> int:
        """Ask for ourselves and for those who wait; the lowest timestamps are ours."""
        total, followers = leader.count, self._followers(MAX_COUNT - leader.count)
        total += sum(follower.count for follower in followers)
        try:
            given = await self._ask(total) - total
        except TidelogError as error:
            _fail(followers, error)
            raise
        except BaseException:
            # Cancelled, or what nobody foresaw: they wait on, and one of them asks again.
            self._waiting.extendleft(f for f in reversed(followers) if not f.turn.done())
            raise
        own = given = given + leader.count
        for follower in followers:
            given += follower.count
            if not follower.turn.done():
                follower.turn.set_result(given)
        return own


def _fail(followers: list[_Caller], error: TidelogError) -> None:
    """None is left in the list: its frame is one that the error knows (a cycle, else)."""
    for caller in followers:
        if not caller.turn.done():
            caller.turn.set_exception(error)
    followers.clear()
