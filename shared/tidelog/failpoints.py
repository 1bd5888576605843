"""Named places where tests make the process fail (design section 3; reliability R5).

`hit("pump.writer.before_sync")` does nothing unless the name is armed, by a test through `arm`, or
for a child process through TIDELOG_FAILPOINTS="name=kill@3;other=raise" (at the third hit), or
"place=stall:/some/file" (while that file is there), or "place=stall@3" (at the third hit the whole
process stands still for STALL_S). A name's first word says whose process passes there; `node` and
`reader`: of several services'. A name stands at one place only (tests/kills/points.py lists them).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tidelog.errors import ConfigError, IoFailed, TidelogError, Unavailable

STALL = "stall:"
STALL_S = 1.5
CLIENT = "client."
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


def failure(name: str) -> TidelogError:
    """What an I/O call fails with at this place: a client has the network only."""
    kind = Unavailable if name.startswith(CLIENT) else IoFailed
    return kind(f"the failpoint {name} failed this operation")


def told(name: str, action: str) -> str:
    """What a process says on its stderr when it fires, so that a test knows."""
    return f"failpoint {name}: {action}"


def _tell(name: str, action: str) -> None:
    os.write(2, f"{told(name, action)}\n".encode())  # past all buffers: the end may be near


def _kill(_: str, __: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise(name: str, _: int) -> None:
    _tell(name, "raise")
    raise failure(name)


def _stand_still(name: str, at: int) -> None:
    if hits[name] == at:
        _tell(name, "stall")
        threading.Event().wait(STALL_S)


ACTIONS: dict[str, Callable[[str, int], None]] = {
    "kill": _kill,
    "raise": _raise,
    "stall": _stand_still,
}


def arm_from_text(text: str) -> None:
    """Parse TIDELOG_FAILPOINTS. Raises ConfigError."""
    for item in filter(None, text.split(";")):
        name, _, action = item.partition("=")
        if action.startswith(STALL):
            arm_stall(name, Path(action.removeprefix(STALL)))
            continue
        verb, _, count = action.partition("@")
        chosen = ACTIONS.get(verb)
        if chosen is None or (count and not count.isdigit()):
            hint = "NAME=kill@N, NAME=raise@N, NAME=stall@N, or NAME=stall:PATH"
            raise ConfigError(f"failpoint {item!r}", hint=hint)
        at = int(count or 1)
        arm(name, partial(chosen, name, at), at)
