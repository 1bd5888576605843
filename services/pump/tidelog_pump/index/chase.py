"""When the slow chaser is on, when it may hold the writer, when it rests (seeds/003). Pure.

on     from the first batch on that the indexer would not take within the threshold
look   each POLL_S; while on, a round of at most two catch-ups
first  beside the writer; was it short, and the last try long ago, then
second holding the writer, at most LOCKED_S: off, or given up
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter

from tidelog.errors import InvariantBroken
from tidelog_pump.log.place import Pointer

POLL_S = 0.5
SHORT_S = 1.0
"""A catch-up that took less says that the index keeps up again."""
LOCKED_S = 1.0
COOLDOWN_S = 60.0
"""From one try that holds the writer to the next."""
MARK_MS = 1000
MARKS = 4096
"""Of the clock while it is on; of more every second one goes."""

_at = itemgetter(0)


class Chase:
    """Of writer and chaser: is the chaser on, and where is the first record it has not read."""

    def __init__(self) -> None:
        self.on = False
        self.unread = Pointer(0, 0)
        self._marks: list[tuple[Pointer, int]] = []
        """From this record on: what the wall clock said then, or later."""
        self.latest_ms = 0
        """The highest that the wall clock said when something came; nothing is judged by more."""
        self._last_try: float | None = None

    def reset(self) -> None:
        """The log was read to its end: nothing is unread."""
        self.__init__()  # type: ignore[misc]

    def coming(self, wall_ms: int) -> None:
        """A batch is about to be written, be the chaser on or off."""
        self.latest_ms = max(self.latest_ms, wall_ms)

    def turn_on(self, first_unread: Pointer, wall_ms: int = 0) -> None:
        if self.on:
            raise InvariantBroken(f"the chaser is on already, from {self.unread}")
        self.on, self.unread = True, first_unread
        self._marks = [(first_unread, wall_ms)]

    def came(self, first: Pointer, wall_ms: int) -> None:
        """A batch was written by then."""
        if abs(wall_ms - self._marks[-1][1]) >= MARK_MS:
            self._marks.append((first, wall_ms))
            if len(self._marks) > MARKS:
                del self._marks[1::2]

    def came_ms(self, at: Pointer) -> int:
        """When an unread record came, at the earliest: a timestamp in it is believed by the clock
        of then (I9)."""
        return self._marks[max(0, bisect_right(self._marks, at, key=_at) - 1)][1]

    def read_to(self, pointer: Pointer) -> None:
        """Everything before `pointer` is indexed."""
        if not self.on or pointer < self.unread:
            raise InvariantBroken(f"the chaser went from {self.unread} to {pointer}")
        self.unread = pointer
        del self._marks[: bisect_right(self._marks, pointer, key=_at) - 1]

    def may_hold(self, took_s: float, now_s: float) -> bool:
        """After a catch-up beside the writer: is it time for one that holds him?"""
        rested = self._last_try is None or now_s - self._last_try > COOLDOWN_S
        return self.on and took_s < SHORT_S and rested

    def tried(self, now_s: float) -> None:
        self._last_try = now_s

    def turn_off(self, end: Pointer) -> None:
        """The writer is held, and `end` is where he goes on."""
        if self.unread != end:
            raise InvariantBroken(f"the log ends at {end}, the chaser has read up to {self.unread}")
        self.on = False
