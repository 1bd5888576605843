"""Named places where tests make the process fail (design section 3; reliability R5).

`hit("pump.writer.before_sync")` does nothing unless the name is armed, by a test through `arm`, or
for a child process through TIDELOG_FAILPOINTS="name=kill@3;other=raise" (at the third hit), or
"slow=delay:0.25@2-40" (a quarter of a second at each of these hits).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable

from tidelog.errors import ConfigError, IoFailed

_DELAY = re.compile(r"delay:(\d+(?:\.\d+)?)(?:@(\d+)(?:-(\d+))?)?")
_armed: dict[str, tuple[Callable[[], None], int]] = {}
hits: dict[str, int] = {}
_delays: dict[str, tuple[float, int, int]] = {}


def hit(name: str) -> None:
    """Count a passage, and do what was armed for it."""
    if not _armed:
        return
    hits[name] = hits.get(name, 0) + 1
    armed = _armed.get(name)
    if armed is not None and hits[name] >= armed[1]:
        armed[0]()


def arm(name: str, action: Callable[[], None], at: int = 1) -> None:
    """Run `action` from the `at`-th hit on."""
    _armed[name] = (action, at)


def delay(name: str) -> float:
    """Count a passage where the caller can wait: for how many seconds."""
    if name not in _delays:
        return 0.0
    hits[name] = hits.get(name, 0) + 1
    seconds, first, last = _delays[name]
    return seconds if first <= hits[name] <= last else 0.0


def arm_delay(name: str, seconds: float, first: int = 1, last: int = 1 << 62) -> None:
    """Let the passages from the `first` to the `last` wait."""
    _delays[name] = (seconds, first, last)


def disarm_all() -> None:
    _armed.clear()
    _delays.clear()
    hits.clear()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise IoFailed("a failpoint failed this operation")


def arm_from_text(text: str) -> None:
    """Parse TIDELOG_FAILPOINTS. Raises ConfigError."""
    for item in filter(None, text.split(";")):
        name, _, action = item.partition("=")
        slow = _DELAY.fullmatch(action)
        if slow is not None:
            first = int(slow[2] or 1)
            arm_delay(name, float(slow[1]), first, int(slow[3] or first if slow[2] else 1 << 62))
            continue
        verb, _, count = action.partition("@")
        chosen = {"kill": _kill, "raise": _raise}.get(verb)
        if chosen is None or (count and not count.isdigit()):
            hint = "NAME=kill@N, NAME=raise@N, or NAME=delay:SECONDS@N-M"
            raise ConfigError(f"failpoint {item!r}", hint=hint)
        arm(name, chosen, int(count or 1))
