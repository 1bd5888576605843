"""Which transactions are over: the last ones from memory, older ones from the index. Pure.

The index is asked only where memory can't tell: not for a start_ts above every one that is closed
(a new Prewrite's), nor for one that was found open and has not been closed since (its Commit's).
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog_pump.index.keys import closed_at, transaction_key

LIMIT = 1 << 17
"""At least as many are remembered, more than the buffer between writer and indexer can hold; older
ones the index knows."""


class ClosedStarts:
    """start_ts -> commit_ts, 0 for a Rollback; `look_up` reads a key of the index, `newest` is its
    largest start_ts. Whatever is closed from now on must be `add`ed."""

    def __init__(
        self, look_up: Callable[[bytes], bytes | None], newest: int, limit: int = LIMIT
    ) -> None:
        self._look_up = look_up
        self._newest = newest
        self._limit = limit
        self._recent: dict[int, int] = {}
        self._before: dict[int, int] = {}
        self._open: dict[int, None] = {}

    def add(self, start_ts: int, commit_ts: int) -> None:
        self._open.pop(start_ts, None)
        if start_ts > self._newest:
            self._newest = start_ts
        if len(self._recent) >= self._limit:
            # Two generations: to find the oldest entry of a dict takes longer with each deletion.
            self._before, self._recent = self._recent, {}
        self._recent[start_ts] = commit_ts

    def ask_again(self) -> None:
        """The index has gone on while nobody was told: what it did not know it may know now."""
        self._open.clear()

    def get(self, start_ts: int) -> int | None:
        """commit_ts, 0 if rolled back, None if the transaction is open or unknown."""
        if start_ts in self._open:
            return None
        recent = self._recent.get(start_ts)
        if recent is None:
            recent = self._before.get(start_ts)
        if recent is not None:
            return recent
        if start_ts <= self._newest:
            value = self._look_up(transaction_key(start_ts))
            closed = None if value is None else closed_at(value)
            if closed is not None:
                return closed
        if len(self._open) >= self._limit:
            self._open.clear()
        self._open[start_ts] = None
        return None
