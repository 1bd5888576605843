"""How long ago each feed pulled last, by the time that this Pump was up: a clock that is set
forward makes nobody look gone. Pure but for the clock."""

from __future__ import annotations

from tidelog.ports import Clock


class Idle:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}

    def begin(self, feed: str, idle_s: float) -> None:
        """As it was when this Pump ended; what was not saved of it does not count."""
        self._since[feed] = self._clock.monotonic() - idle_s

    def pulled(self, feed: str) -> None:
        self._since[feed] = self._clock.monotonic()

    def forget(self, feed: str) -> None:
        self._since.pop(feed, None)

    def of(self, feed: str) -> float:
        now_s = self._clock.monotonic()
        return now_s - self._since.get(feed, now_s)
