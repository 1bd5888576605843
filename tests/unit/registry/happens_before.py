"""Timestamps against real order: one whose answer had come before a request was sent is smaller."""

from __future__ import annotations

from itertools import count, pairwise

import msgspec

from tidelog.errors import Unavailable
from tidelog.oracle import RegistryOracle


class Taken(msgspec.Struct, frozen=True):
    """`sent` and `came` order all requests and answers of this process; first..last were given."""

    sent: int
    came: int
    first: int
    last: int


class Takings:
    """Every answer that any client got."""

    def __init__(self) -> None:
        self.all: list[Taken] = []
        self.unanswered = 0
        self._now = count()

    async def take(self, oracle: RegistryOracle, number: int) -> bool:
        sent = next(self._now)
        try:
            last = await oracle.take(number)
        except Unavailable:
            self.unanswered += 1
            return False
        self.all.append(Taken(sent, next(self._now), last - number + 1, last))
        return True

    def check(self) -> None:
        """Each is above all that had come before it was asked for, and none was given twice."""
        came = sorted(self.all, key=lambda taken: taken.came)
        highest, at = 0, 0
        for taken in sorted(self.all, key=lambda taken: taken.sent):
            while came[at].came < taken.sent:
                highest = max(highest, came[at].last)
                at += 1
            assert taken.first > highest, f"{taken} after {highest} had been given"
        ordered = sorted(self.all, key=lambda taken: taken.first)
        for before, after in pairwise(ordered):
            assert before.last < after.first, f"{before} and {after} overlap"
