"""Which slot has gone unserved for long enough to be adopted, and which failed of late. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

FIRST_S, LONGEST_S = 10.0, 600.0


class Orphans:
    """`grace_s`: a Pump that is restarted gets its own slot back within it. Times are monotonic
    seconds."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self._since: dict[str, float] = {}

    def saw(self, free: Iterable[str], now: float) -> None:
        """A look: these have no holder, all others have."""
        self._since = {name: self._since.get(name, now) for name in free}

    def due(self, now: float, skip: Collection[str] = ()) -> list[str]:
        """Those to adopt, the one that waits longest first."""
        waiting = sorted((since, name) for name, since in self._since.items() if name not in skip)
        return [name for since, name in waiting if now - since >= self._grace_s]

    def ages(self, now: float) -> dict[str, int]:
        return {name: round(now - since) for name, since in sorted(self._since.items())}


class LeftAlone:
    """Slots whose Pump failed: for FIRST_S, after each failure in a row for twice as long, up to
    LONGEST_S. Readers wait for what such a slot holds, and what made it fail may pass."""

    def __init__(self) -> None:
        self._pauses: dict[str, tuple[float, float]] = {}
        """How long, until when."""

    def failed(self, name: str, now: float) -> None:
        length, until = self._pauses.get(name, (0.0, -math.inf))
        in_a_row = now - until < LONGEST_S
        length = min(2 * length, LONGEST_S) if in_a_row else FIRST_S
        self._pauses[name] = length, now + length

    def names(self, now: float) -> set[str]:
        return {name for name, (_, until) in self._pauses.items() if now < until}
