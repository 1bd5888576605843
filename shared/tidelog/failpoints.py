"""Named places where tests make the process fail (design section 3; reliability R5).

`hit("pump.writer.before_sync")` does nothing unless the name is armed, by a test through `arm`, or
for a child process through TIDELOG_FAILPOINTS="name=kill@3;other=raise" (at the third hit).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tidelog.errors import ConfigError, IoFailed

_armed: dict[str, tuple[Callable[[], None], int]] = {}
hits: dict[str, int] = {}


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


def disarm_all() -> None:
    _armed.clear()
    hits.clear()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise IoFailed("a failpoint failed this operation")


def arm_from_text(text: str) -> None:
    """Parse TIDELOG_FAILPOINTS. Raises ConfigError."""
    for item in filter(None, text.split(";")):
        name, _, action = item.partition("=")
        verb, _, count = action.partition("@")
        chosen = {"kill": _kill, "raise": _raise}.get(verb)
        if chosen is None or (count and not count.isdigit()):
            raise ConfigError(f"failpoint {item!r}", hint="NAME=kill@N or NAME=raise@N")
        arm(name, chosen, int(count or 1))
