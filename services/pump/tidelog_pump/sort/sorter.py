"""Pairs Prewrites with Commits and says up to where everything is readable (I2; section 7).

    open      Prewrites from their arrival, before their ack, until their end is synced and indexed
    bound(P)  max(P.start_ts, W when P arrived): commit_ts is fetched after the ack, so it is larger
    resolved  min(W, bound(P) for P in open, the cap while the chaser is on), never going back

Pure; O(log n) an event: a heap of bounds whose closed entries are dropped when they surface.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidelog_pump.sort.high_ts import HighTs


class OpenPrewrite(NamedTuple):
    """`since_s`: monotonic clock when it arrived, or when this Pump started; a wall clock that is
    set forward must not have its verdict forced."""

    start_ts: int
    bound: int
    since_s: float


class Sorter:
    def __init__(self, high: HighTs) -> None:
        self.high = high
        self.resolved = 0
        self.max_commit_ts = 0
        self.late = 0
        self.repeated = 0
        self.floor = 0
        """Promised to readers before this run."""
        self.cap: int | None = None
        """While the chaser is on: below the commit_ts of whatever it has not read yet."""
        self._open: dict[int, OpenPrewrite] = {}
        self._bounds: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._open)

    @property
    def promised(self) -> int:
        """Some reader may be past it."""
        return max(self.resolved, self.floor)

    def has_read(self, ts: int, now_ms: int) -> None:
        """A reader that comes back says that it was promised `ts` once. One that nobody can have
        allocated is none."""
        if ts <= self.high.value or self.high.is_near(ts, now_ms):
            self.floor = max(self.floor, ts)

    def reset(self, high_ts: int, prewrites: Iterable[tuple[int, int]], at_s: float) -> None:
        """Begin again from the log: W at its end and the open (start_ts, bound) in log order.
        What was promised as resolved stays."""
        self._open = {start: OpenPrewrite(start, bound, at_s) for start, bound in prewrites}
        self._bounds = [(entry.bound, entry.start_ts) for entry in self._open.values()]
        heapq.heapify(self._bounds)
        self.high.value = max(self.high.value, high_ts)
        self.cap = None
        self.advance()

    def enter(self, start_ts: int, now_ms: int, at_s: float = 0.0) -> None:
        """A Prewrite arrived. A repeated one keeps its first bound. Call before its ack."""
        if start_ts in self._open:
            self.repeated += 1
            return
        if self.high.follow:
            self.high.claim(start_ts, now_ms)
        bound = max(start_ts, self.high.value)
        self._open[start_ts] = OpenPrewrite(start_ts, bound, at_s)
        heapq.heappush(self._bounds, (bound, start_ts))

    def enter_chased(self, start_ts: int, bound: int, now_ms: int, at_s: float = 0.0) -> None:
        """A Prewrite that the chaser read, with its bound by the log; perhaps entered before."""
        if self.high.follow:
            self.high.claim(start_ts, now_ms)
        if start_ts in self._open:
            return
        bound = max(bound, self.cap or 0)
        self._open[start_ts] = OpenPrewrite(start_ts, bound, at_s)
        heapq.heappush(self._bounds, (bound, start_ts))

    def set_cap(self) -> None:
        """What is written from now on is not entered: each commit_ts will be above W as it is."""
        self.cap = self.high.value

    def raise_cap(self, ts: int) -> None:
        """Each commit_ts of what is not read yet is above `ts`."""
        if self.cap is not None:
            self.cap = max(self.cap, ts)

    def close(self, start_ts: int, commit_ts: int, now_ms: int) -> bool:
        """Its Commit (or Rollback: commit_ts 0) is synced and indexed. Returns False for a Commit
        at or below what was promised: the second copy of a transaction that another Pump has."""
        self._open.pop(start_ts, None)
        if commit_ts == 0:
            return True
        self.max_commit_ts = max(self.max_commit_ts, commit_ts)
        self.high.claim(commit_ts, now_ms)
        if commit_ts <= self.promised:
            self.late += 1
            return False
        return True

    def advance(self) -> bool:
        """Recompute resolved after a batch of events; did it move?"""
        bounds, living = self._bounds, self._open
        while bounds and (bounds[0][1] not in living or living[bounds[0][1]].bound != bounds[0][0]):
            heapq.heappop(bounds)
        if len(bounds) > 64 and len(bounds) > 2 * len(living):
            bounds[:] = [(entry.bound, entry.start_ts) for entry in living.values()]
            heapq.heapify(bounds)
        safe = min(self.high.value, bounds[0][0]) if bounds else self.high.value
        if self.cap is not None:
            safe = min(safe, self.cap)
        if safe <= self.resolved:
            return False
        self.resolved = safe
        return True

    def oldest(self) -> OpenPrewrite | None:
        """The open Prewrite that arrived first."""
        return next(iter(self._open.values()), None)

    def opened(self, start_ts: int) -> OpenPrewrite | None:
        return self._open.get(start_ts)

    def waiting_since(self, before_s: float) -> Iterator[OpenPrewrite]:
        """Open Prewrites that arrived at or before `before_s`, oldest first."""
        for entry in self._open.values():
            if entry.since_s > before_s:
                return
            yield entry
