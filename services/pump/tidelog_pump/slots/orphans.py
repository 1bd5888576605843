"""Which slot has gone unserved for long enough to be adopted. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable


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
