"""What keeps the Applier from getting on, said once, and how long to wait before it tries again."""

from __future__ import annotations

import structlog

from tidelog.errors import TidelogError
from tidelog.ports import Ports
from tidelog_applier.position import Position

log = structlog.get_logger()

RETRY_S = (0.2, 5.0)
"""First and longest pause before the downstream is tried again; each times 0.5 to 1.5."""


class Trouble:
    """Of one connection; `position.error` shows the newest of all."""

    def __init__(self, ports: Ports, position: Position, what: str) -> None:
        self._ports = ports
        self._position = position
        self._what = what
        self._pause_s = RETRY_S[0]
        self._said = ""

    def say(self, error: TidelogError) -> None:
        """In the log, unless it was said; in the status until it is over."""
        if str(error) != self._said:
            log.warning("applying waits", error=error.message, hint=error.hint, at=self._what)
        self._position.error = self._said = str(error)

    async def met(self, error: TidelogError) -> None:
        """Say it, and wait."""
        self.say(error)
        pause, self._pause_s = self._pause_s, min(self._pause_s * 2, RETRY_S[1])
        await self._ports.clock.sleep(pause * (0.5 + self._ports.rng.random()))

    def over(self) -> None:
        """It works again."""
        if self._said:
            if self._position.error == self._said:
                self._position.error = ""
            log.info("applying goes on", at=self._what)
        self._said = ""
        self._pause_s = RETRY_S[0]
