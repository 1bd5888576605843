"""What the pure rooms of the registry ask the directory to do, in order."""

from __future__ import annotations

import msgspec

from tidelog.membership import Member
from tidelog.messages import NodeStatus


class Write(msgspec.Struct, frozen=True):
    """Write this entry of the membership bucket, then tell `recorded`."""

    member: Member


class Notify(msgspec.Struct, frozen=True):
    """Ask this Drainer to add the Pump, again and again while `awaits` says so; then `acked`."""

    drainer: str
    pump: str


class Changed(msgspec.Struct, frozen=True):
    """Publish the event of a state change."""

    status: NodeStatus


class Joined(msgspec.Struct, frozen=True):
    """Answer those who wait for this Pump's join: it is through, or it was ended."""

    pump: str
    state: str


class Forget(msgspec.Struct, frozen=True):
    """An operator took this Drainer or Applier out: the safe point waits no longer for what it had
    registered. `last`: no other Drainer of its feed is left."""

    status: NodeStatus
    last: bool


Effect = Write | Notify | Changed | Joined | Forget
