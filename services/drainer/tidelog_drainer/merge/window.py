"""The part of the past that a rewind merges. Pure."""

from __future__ import annotations


class Window:
    """Up to `until`; less once `max_bytes` of payloads have passed: what is missing then is asked
    for again by the reader, so that no replay grows without bound."""

    def __init__(self, until: int, max_bytes: int) -> None:
        self.until = until
        self._left = max_bytes

    def passed(self, size: int, emitted: int) -> None:
        """`size` bytes up to `emitted` were merged."""
        self._left -= size
        if self._left <= 0:
            self.until = min(self.until, emitted)
