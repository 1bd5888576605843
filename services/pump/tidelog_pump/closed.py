"""Which transactions are over: the last ones from memory, older ones from the index. Pure."""

from __future__ import annotations

from collections.abc import Callable

from tidelog_pump.index import closed_at, transaction_key

LIMIT = 1 << 17
"""More than the buffer between writer and indexer can hold; older ones the index knows."""


class ClosedStarts:
    """start_ts -> commit_ts, 0 for a Rollback; `look_up` reads a key of the index."""

    def __init__(self, look_up: Callable[[bytes], bytes | None], limit: int = LIMIT) -> None:
        self._look_up = look_up
        self._limit = limit
        self._recent: dict[int, int] = {}

    def add(self, start_ts: int, commit_ts: int) -> None:
        self._recent[start_ts] = commit_ts
        if len(self._recent) > self._limit:
            del self._recent[next(iter(self._recent))]

    def get(self, start_ts: int) -> int | None:
        """commit_ts, 0 if rolled back, None if the transaction is open or unknown."""
        recent = self._recent.get(start_ts)
        if recent is not None:
            return recent
        value = self._look_up(transaction_key(start_ts))
        return None if value is None else closed_at(value)
