"""What state follows which, as data (original.md B.7; seed 000, "Pump status definition").

`unreachable` is no state: it is a mark on a node whose lease expired (I4).
"""

from __future__ import annotations

from tidelog.errors import BadInput, Refused
from tidelog.messages import CLOSING, JOINING, OFFLINE, ONLINE, PAUSED, PAUSING

STATES = (JOINING, ONLINE, PAUSING, PAUSED, CLOSING, OFFLINE)
ACTIONS = ("pause", "resume", "offline")

NODE_LEASE_S = 6.0
READER_LEASE_S = 4.0
"""Drainers and appliers: what waits for them waits this long at most."""

OPERATED = {
    (ONLINE, "pause"): PAUSING,
    (PAUSING, "pause"): PAUSING,
    (PAUSED, "pause"): PAUSED,
    (PAUSING, "resume"): ONLINE,
    (PAUSED, "resume"): ONLINE,
    (ONLINE, "resume"): ONLINE,
    (ONLINE, "offline"): CLOSING,
    (PAUSING, "offline"): CLOSING,
    (PAUSED, "offline"): CLOSING,
    (CLOSING, "offline"): CLOSING,
    (OFFLINE, "offline"): OFFLINE,
}
"""(state, what an operator asks) -> state."""

ANNOUNCED = {
    (PAUSING, PAUSED): PAUSED,
    (CLOSING, OFFLINE): OFFLINE,
}
"""(state, what a living node says it has reached) -> state. Anything else it says changes nothing:
the answer tells it what to become."""

LEFT = {
    JOINING: JOINING,
    ONLINE: PAUSED,
    PAUSING: PAUSED,
    PAUSED: PAUSED,
    CLOSING: CLOSING,
    OFFLINE: OFFLINE,
}
"""A Pump that stopped in order. It stays a source: only a tombstone ends that."""

RETURNED = {
    ONLINE: ONLINE,
    PAUSING: ONLINE,
    PAUSED: ONLINE,
    CLOSING: CLOSING,
    JOINING: JOINING,
    OFFLINE: JOINING,
}
"""A Pump that registers. The Drainers have the first four as sources already; an offline one comes
as a new one."""


def operated(state: str, action: str, *, accept_loss: bool) -> str:
    """The state an operator's wish leads to. Raises BadInput (no such wish), Refused (not now)."""
    if action not in ACTIONS:
        raise BadInput(f"unknown action {action!r}", hint=f"one of {', '.join(ACTIONS)}")
    if action == "offline" and (accept_loss or state == JOINING):
        return OFFLINE
    try:
        return OPERATED[state, action]
    except KeyError:
        raise Refused(f"a node that is {state} can't {action}") from None


def lease_s(kind: str) -> float:
    """Seconds a node of this kind is believed without a heartbeat."""
    return NODE_LEASE_S if kind == "pump" else READER_LEASE_S
