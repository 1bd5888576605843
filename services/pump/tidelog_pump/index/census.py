"""How many Prewrites are open: each takes memory until somebody says what became of it.

The indexer counts, the writer refuses. What lies between the two, and what the chaser has yet to
read, comes on top: the buffer between them is bounded, and of what the chaser reads most is closed
when it is read.
"""

from __future__ import annotations

MAX_OPEN = 1 << 19
"""About 400 bytes each. A Pump whose upstream has so many transactions under way at once is not
slow, it has lost their ends."""


class Census:
    def __init__(self) -> None:
        self.open = 0

    @property
    def left(self) -> int:
        """How many more may be opened."""
        return max(0, MAX_OPEN - self.open)
