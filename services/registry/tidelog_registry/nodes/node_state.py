"""What state follows which, as data (original.md B.7; seed 000, "Pump status definition").

`unreachable` is no state: it is a mark on a node whose lease expired (I4). What happens to a node:

    returns, -paused, -closing   it registers, with what an operator asked of it last
    stops                        it says good-bye
    paused                       it says that it pauses now
    left                         it says that it left, which the registry has forgotten
    drained                      it says that it is done, and every consumer has passed it
    opens, -paused, -closing     every Drainer took it as a source, with what an operator asked
    pause, resume, offline       an operator asks
    removed                      nobody waits for it any more: a failed join, a reader that is gone,
                                 a loss that an operator accepts
"""

from __future__ import annotations

from tidelog.errors import Refused
from tidelog.messages import CLOSING, JOINING, OFFLINE, ONLINE, PAUSED, PAUSING, PUMP

STATES = (JOINING, ONLINE, PAUSING, PAUSED, CLOSING, OFFLINE)
ACTIONS = ("pause", "resume", "offline")

NODE_LEASE_S = 6.0
READER_LEASE_S = 4.0
"""Drainers and appliers: what waits for them waits this long at most."""


def _table(text: str) -> dict[tuple[str, str], str]:
    """(event, state) -> state, of a matrix with a column for each of STATES: `.` stays, `-` (left
    out) is refused."""
    table: dict[tuple[str, str], str] = {}
    for line in text.strip().splitlines():
        event, *cells = line.split()
        for state, cell in zip(STATES, cells, strict=True):
            if cell != "-":
                table[event, state] = state if cell == "." else cell
    return table


_PUMPS = _table(
    """
    returns          .        online   online   online   .        joining
    returns-paused   .        pausing  pausing  .        pausing  joining
    returns-closing  .        closing  closing  closing  .        joining
    stops            .        paused   paused   .        .        .
    paused           .        .        paused   .        .        .
    left             closing  closing  closing  closing  .        .
    drained          .        .        .        .        offline  .
    opens            online   .        .        .        .        .
    opens-paused     paused   .        .        .        .        .
    opens-closing    closing  .        .        .        .        .
    pause            .        pausing  .        .        -        -
    resume           .        .        online   online   -        -
    offline          .        closing  closing  closing  .        .
    removed          offline  offline  offline  offline  offline  .
    """
)
"""The merge waits for all but an offline one. One that joins keeps an operator's order until it is
in. A Pump that stops in order is `paused` as long as it is away."""

_READERS = _table(
    """
    returns          online   online   online   online   .        online
    returns-paused   pausing  pausing  pausing  .        pausing  pausing
    returns-closing  closing  closing  closing  closing  .        closing
    stops            offline  offline  offline  offline  offline  .
    paused           .        .        paused   .        .        .
    left             closing  closing  closing  closing  .        .
    drained          .        .        .        .        offline  .
    opens            .        .        .        .        .        .
    opens-paused     .        .        .        .        .        .
    opens-closing    .        .        .        .        .        .
    pause            .        pausing  .        .        -        -
    resume           .        .        online   online   -        -
    offline          closing  closing  closing  closing  .        .
    removed          offline  offline  offline  offline  offline  .
    """
)
"""Drainers and Appliers: nobody waits for their state, they never are `joining`."""

_ORDERED = {"pause": "-paused", "offline": "-closing"}


def ordered(event: str, action: str) -> str:
    """`returns` and `opens` of a node with an operator's order."""
    return event + _ORDERED.get(action, "")


def follows(kind: str, state: str, event: str) -> str:
    """The state after one of the table's events. Raises Refused (not in this state)."""
    try:
        return (_PUMPS if kind == PUMP else _READERS)[event, state]
    except KeyError:
        raise Refused(
            f"a node that is {state} can't {event}",
            hint="start it again once it is offline: it joins as a new node",
        ) from None


def lease_s(kind: str) -> float:
    """Seconds a node of this kind is believed without a heartbeat."""
    return NODE_LEASE_S if kind == PUMP else READER_LEASE_S
