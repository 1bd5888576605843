"""Waiting for what other processes do, which nobody tells us."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_S = 0.02


def until(
    condition: Callable[[], bool], what: str | Callable[[], str], timeout_s: float = 60
) -> None:
    """Wait on a condition of other processes; fail with its name, or with what `what` then says."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited in vain for {what if isinstance(what, str) else what()}")
        time.sleep(LOOK_S)  # between two looks: a process' files, ports and pages can't be awaited
