"""What stays behind in memory: cycles and free blocks, as a process that runs for months wants it.

Errors with their tracebacks, and the tasks and streams of a connection that was lost, refer to one
another: no count of references lets go of them. A service whose other objects come and go evenly
would keep up to COLLECT_AFTER of them, for hours, and its memory would look as if it leaked.

What a burst took and freed, the C library keeps where something behind it is in use: it looks the
same.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from functools import cache

COLLECT_AFTER = (20_000, 20, 20)
"""The collector looks at new objects after so many (Python's default: 700). We leave few cycles and
have many objects in flight."""
SWEEP_S = 300.0
"""A sweep takes 2 to 20 ms: what was imported is not looked at. Each 40 MiB that are given back
take 10 ms more."""


@cache
def settle() -> None:
    """Once in a process, when all is imported: that is never looked at again. Spark's Python
    workers collect after every task, which takes 50 ms with what we import."""
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    gc.enable()


class Sweep:
    """Collects each SWEEP_S, however few there are, and gives back to the system what is free. It
    needs no task, only a timer."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        """glibc's; others have none."""

    def start(self) -> None:
        self._timer = self._loop.call_later(SWEEP_S, self._tick)

    def _tick(self) -> None:
        gc.collect()
        if self._trim is not None:
            self._trim(0)
        self.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
