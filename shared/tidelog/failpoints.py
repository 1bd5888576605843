"""Named places where tests make the process fail (design section 3; reliability R5).

`hit("pump.writer.before_sync")` does nothing unless the name is armed, by a test through `arm`, or
for a child process through TIDELOG_FAILPOINTS="name=kill@3;other=raise" (at the third hit), or
"place=stall:/some/file" (while that file is there).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tidelog.errors import ConfigError, IoFailed

STALL = "stall:"
_armed: dict[str, tuple[Callable[[], None], int]] = {}
hits: dict[str, int] = {}
_stalls: dict[str, Path] = {}


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


def stalled(name: str) -> bool:
    """Must whoever can wait here wait, because what was armed for it is still there?"""
    stall = _stalls.get(name)
    return stall is not None and stall.exists()


def arm_stall(name: str, path: Path) -> None:
    """Stall this place while there is such a file."""
    _stalls[name] = path


def disarm_all() -> None:
    _armed.clear()
    _stalls.clear()
    hits.clear()


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise IoFailed("a failpoint failed this operation")


def arm_from_text(text: str) -> None:
    """Parse TIDELOG_FAILPOINTS. Raises ConfigError."""
    for item in filter(None, text.split(";")):
        name, _, action = item.partition("=")
        if action.startswith(STALL):
            arm_stall(name, Path(action.removeprefix(STALL)))
            continue
        verb, _, count = action.partition("@")
        chosen = {"kill": _kill, "raise": _raise}.get(verb)
        if chosen is None or (count and not count.isdigit()):
            hint = "NAME=kill@N, NAME=raise@N, or NAME=stall:PATH"
            raise ConfigError(f"failpoint {item!r}", hint=hint)
        arm(name, chosen, int(count or 1))
