"""One life of a simulated process: from its start until it ends or is killed.

Every port handed to a process knows its life. From the instant of death a port does nothing more:
calls end as if the caller had been cancelled, which is what happens to it.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar


class Life:
    def __init__(self, name: str, number: int = 1) -> None:
        self.name = name
        self.number = number
        self.alive = True

    def check(self) -> None:
        """Raises CancelledError once the process is dead."""
        if not self.alive:
            raise asyncio.CancelledError(f"{self.name} is dead")


current_life: ContextVar[Life | None] = ContextVar("current_life", default=None)
"""The process that the running task belongs to; tasks inherit it from their creator."""
