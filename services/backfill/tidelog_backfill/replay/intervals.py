"""Things that lie between two timestamps, found by what they overlap. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Generic, TypeVar

T = TypeVar("T")


class Intervals(Generic[T]):
    """Of (first, last, thing): what has a place in [first, last], both included."""

    def __init__(self, things: Iterable[tuple[int, int, T]]) -> None:
        self._things = sorted(things, key=lambda one: one[:2])
        self._firsts = [first for first, _, _ in self._things]
        self._reach = list(accumulate((last for _, last, _ in self._things), max))
        """The largest `last` up to each of them."""

    def __iter__(self) -> Iterator[tuple[int, int, T]]:
        return iter(self._things)

    def over(self, after: int, until: int) -> list[tuple[int, int, T]]:
        """Those that may lie in (after, until], by their first."""
        if after >= until:
            return []  # one that reaches from before `after` to behind it has no place there
        begin = bisect_right(self._reach, after)
        end = bisect_right(self._firsts, until)
        return [one for one in self._things[begin:end] if one[1] > after]
