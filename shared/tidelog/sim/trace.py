"""What happened in a run, folded into one hash; the lines are kept on demand (reliability R3)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable


class Trace:
    """Two runs of one seed are the same run exactly if their digests are equal."""

    def __init__(self, now: Callable[[], float], *, keep: bool = False) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self.lines: list[str] | None = [] if keep else None
        self.count = 0

    def event(self, node: str, what: str, detail: object = "") -> None:
        """Record one port event: who, what, and what tells it from others."""
        line = f"{self._now():.6f} {node} {what} {detail}"
        self._hash.update(line.encode())
        self.count += 1
        if self.lines is not None:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
