"""What an edge answers when a request meets a bug of ours: that caller gets a typed error, the
others are served on. (Within an actor that owns state such an error is a crash, as it must be.)"""

from __future__ import annotations

import structlog

from tidelog.errors import Fatal, InvariantBroken, TidelogError, UnparsablePayload
from tidelog.timestamps import TS_MAX
from tidelog_pump.metrics import ERRORS, UNFORESEEN

log = structlog.get_logger()


def typed(error: Exception, edge: str) -> TidelogError:
    """`error` itself if it is one of ours, without where it was: who asks keeps it in a frame that
    is among those, a cycle for each that is refused. Otherwise counted, logged and wrapped."""
    if isinstance(error, TidelogError):
        return error.with_traceback(None)
    UNFORESEEN.labels(edge).inc()
    log.error("a request met an unforeseen error", edge=edge, exc_info=error)
    return InvariantBroken(f"unforeseen at the Pump's {edge} edge: {error!r}")


def count_fatal(error: TidelogError) -> None:
    """What the original's alert "pump storage error" is for."""
    if isinstance(error, Fatal):
        ERRORS.labels(type(error).__name__).inc()


def check_ts(what: str, ts: int) -> None:
    """A position is 0 or a timestamp. Raises UnparsablePayload."""
    if not 0 <= ts <= TS_MAX:
        raise UnparsablePayload(f"{what} {ts} is no timestamp")
