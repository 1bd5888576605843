"""What the directory is told and asked."""

from __future__ import annotations

import msgspec

from tidelog.actor import Reply
from tidelog.messages import (
    Beat,
    Heartbeat,
    Nodes,
    Register,
    Registered,
    SafePoint,
    SafePointRequest,
    StateReply,
    StateRequest,
)
from tidelog_registry.members import View, Written


class Enrol(msgspec.Struct, frozen=True):
    body: Register
    reply: Reply[Registered]


class Renew(msgspec.Struct, frozen=True):
    body: Heartbeat
    reply: Reply[Beat]


class ListNodes(msgspec.Struct, frozen=True):
    reply: Reply[Nodes]


class Operate(msgspec.Struct, frozen=True):
    body: StateRequest
    reply: Reply[StateReply]


class AskSafePoint(msgspec.Struct, frozen=True):
    body: SafePointRequest
    reply: Reply[SafePoint]


class Floor(msgspec.Struct, frozen=True):
    """`ts`: no new timestamp at or below it. `waits_for`: why it isn't known yet, empty = known."""

    ts: int
    waits_for: tuple[str, ...]


class AskFloor(msgspec.Struct, frozen=True):
    reply: Reply[Floor]


class Recorded(msgspec.Struct, frozen=True):
    """A membership entry is durable."""

    written: Written


class Acked(msgspec.Struct, frozen=True):
    """A Drainer has the Pump as a source."""

    drainer: str
    pump: str


class Looked(msgspec.Struct, frozen=True):
    """How the membership bucket is."""

    view: View


DirectoryMail = (
    Enrol | Renew | ListNodes | Operate | AskSafePoint | AskFloor | Recorded | Acked | Looked
)
