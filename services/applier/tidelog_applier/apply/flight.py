"""Which windows are on their way, and up to where everything is applied. Pure.

The checkpoint is the end of the last window such that it and all before it are applied (I6).
"""

from __future__ import annotations

from collections import deque

import msgspec


class Window(msgspec.Struct):
    """What was handed to the lanes at once. `commit_ts`: everything up to there is applied once
    it and all before it are; `waiting`: lanes that have not finished their share yet."""

    commit_ts: int
    rows: int = 0
    txns: int = 0
    bytes: int = 0
    waiting: int = 0


class Flight:
    """Windows in the order of their positions."""

    def __init__(self, applied: int = 0) -> None:
        self.applied = applied
        """Everything with commit_ts <= this is applied."""
        self.rows = 0
        self.txns = 0
        self.bytes = 0
        """Of the windows on their way."""
        self._windows: deque[Window] = deque()

    @property
    def begun(self) -> int:
        """The position once all windows are applied."""
        return self._windows[-1].commit_ts if self._windows else self.applied

    def __len__(self) -> int:
        return len(self._windows)

    def begin(self, window: Window) -> None:
        """One whose lanes have nothing to do is through as soon as those before it are; a mere
        position joins the one before it, however many come while that one is on its way."""
        if self._windows and not (window.waiting or window.rows or window.txns or window.bytes):
            self._windows[-1].commit_ts = window.commit_ts
            return
        self._windows.append(window)
        self.bytes += window.bytes
        self._land()

    def finish(self, window: Window) -> bool:
        """One more of its lanes is through. Is it the last?"""
        assert window.waiting > 0
        window.waiting -= 1
        self._land()
        return not window.waiting

    def give_up(self) -> None:
        """The windows on their way never land."""
        self._windows.clear()
        self.bytes = 0

    def _land(self) -> None:
        while self._windows and not self._windows[0].waiting:
            window = self._windows.popleft()
            self.applied = max(self.applied, window.commit_ts)
            self.rows += window.rows
            self.txns += window.txns
            self.bytes -= window.bytes
