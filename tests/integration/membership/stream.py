"""The Drainer's stream, read as an application reads it, and held against what was committed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from tests.kills.chain import Chain
from tests.wrong import Wrong
from tidelog.actor import first_error
from tidelog.change_reader import ChangeReader, Gap
from tidelog.ports import Bus
from tidelog.sim.checker import Findings, Ledger, StreamChecker

NEXT_S = 0.2


class Stall:
    """The longest time between two moves, and what was going on at its end."""

    def __init__(self, doing: Callable[[], str]) -> None:
        self._doing = doing
        self._moved = 0.0
        self.longest_s = 0.0
        self.during = ""

    def move(self) -> None:
        now = time.monotonic()
        if self._moved and now - self._moved > self.longest_s:
            self.longest_s, self.during = now - self._moved, self._doing()
        self._moved = now

    def __str__(self) -> str:
        return f"{self.longest_s:.1f} s ({self.during})"


class Stream:
    """Reads from behind `position` until cancelled, beside it message by message: what a reader
    forgives. What was read and compared is forgotten: memory doesn't grow."""

    def __init__(self, bus: Bus, feed: str, doing: Callable[[], str], position: int = 0) -> None:
        self.ledger = Ledger()
        self.checked = 0
        self.stall = Stall(doing)
        self._findings = Findings()
        self._checker = StreamChecker(self._findings)
        self._checker.position = position
        self._reader = ChangeReader(bus, feed, position)
        self._chain, self._bus = Chain(feed, anywhere=position > 0), bus

    @property
    def position(self) -> int:
        return self._checker.position

    def has(self, commit_ts: int) -> bool:
        """Is it read, with our reader and message by message?"""
        return min(self.position, self._chain.marked) >= commit_ts

    async def run(self) -> None:
        """Raises Wrong."""
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._chain.follow(self._bus))
                await self._read()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors
        finally:
            await self._reader.close()

    async def _read(self) -> None:
        try:
            while True:
                changes = await self._reader.next(NEXT_S)
                for change in changes:
                    self._checker.take(change)
                if changes:
                    self.stall.move()
                    self._settle()
        except Gap as error:
            raise Wrong(f"gap: {error}") from error

    def _settle(self) -> None:
        """What is committed up to the position was read by now, and nothing else was: a commit_ts
        is told to the ledger before its Commit, and the stream waits for that."""
        known, seen, upto = self.ledger.committed, self._checker.seen, self.position
        passed = Ledger()
        passed.committed = {ts: known.pop(ts) for ts in [ts for ts in known if ts <= upto]}
        self._checker.finish(passed)
        self.checked += len(seen)
        seen.clear()
        if not self._findings.clean:
            raise Wrong(self._findings.text("of this run"))
