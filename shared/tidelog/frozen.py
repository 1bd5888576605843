"""A loop that stands still for good ends its process: whoever watches over that starts it again.

Nothing written in Python can tell. A thread that waits with Python's lock in hand, for one whose
holder waits for Python's, stops all others too. `faulthandler` has a watchdog that needs no lock:
it writes to stderr where each thread stands (somebody must read that), and ends the process (ADR
22).
"""

from __future__ import annotations

import asyncio
import faulthandler

FROZEN_S = 120.0
"""Beyond whatever a loop may be held up by: leases and sessions are lost long before. A process
that was stopped for so long (SIGSTOP, `docker pause`) ends as it goes on."""
INTERVAL_S = 10.0
STDERR = 2


class Watchdog:
    """One for a process."""

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(INTERVAL_S, self.start)
        faulthandler.dump_traceback_later(FROZEN_S, exit=True, file=STDERR)

    def stop(self) -> None:
        faulthandler.cancel_dump_traceback_later()
        if self._timer is not None:
            self._timer.cancel()
