"""Who takes long says so: a start that reads much of the log, an index that does not keep up."""

from __future__ import annotations

from tidelog.ports import Clock

TOLD_S = 5.0
"""From one word of it to the next."""


class Patience:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_s = clock.monotonic()
        self._told_s = 0.0

    @property
    def waited_s(self) -> float:
        return self._clock.monotonic() - self._since_s

    def is_time_to_tell(self) -> bool:
        """True once in TOLD_S."""
        if self.waited_s < self._told_s + TOLD_S:
            return False
        self._told_s = self.waited_s
        return True
