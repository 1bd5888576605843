"""RowMessages whose rows stay the JSON that they are: what they are of, and cut. Pure."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from tidelog.unreadable import NOT_READABLE


class _At(msgspec.Struct, gc=False):
    commit_ts: int


class Head(msgspec.Struct, frozen=True, gc=False):
    """What a RowMessage's rows are of."""

    db: str
    table: str
    schema_version: int


class Placed(msgspec.Struct, gc=False):
    """A RowMessage; of its events only when they were committed."""

    db: str
    table: str
    schema_version: int
    events: list[_At]


class _Cut(msgspec.Struct, gc=False):
    db: str
    table: str
    schema_version: int
    events: list[msgspec.Raw]


_EVENTS = b',"events":'
_HEADS = 1024
_HEAD = msgspec.json.Decoder(Head)
_PLACED = msgspec.json.Decoder(Placed)
_CUT = msgspec.json.Decoder(_Cut)
_AT = msgspec.json.Decoder(_At)
_json = msgspec.json.Encoder().encode


def head(body: bytes) -> Head:
    """Its events are not looked at where they come last, as ours do. Raises
    msgspec.DecodeError."""
    end = body.find(_EVENTS)
    found = _head(body[:end] + b"}") if end >= 0 else None
    return found or _HEAD.decode(body)


@lru_cache(_HEADS)
def _head(text: bytes) -> Head | None:
    """None: that was not the head, but a part of an event."""
    try:
        return _HEAD.decode(text)
    except NOT_READABLE:
        return None


def placed(body: bytes) -> Placed:
    """Raises msgspec.DecodeError."""
    return _PLACED.decode(body)


def commit_ts_of(body: bytes) -> int:
    """Of a DDL's body. Raises msgspec.DecodeError."""
    return _AT.decode(body).commit_ts


def cut(body: bytes, message: Placed, wanted: Callable[[int], bool]) -> bytes:
    """The body without events of other commit_ts; `message` is what it is. Empty if none stays."""
    stays = [wanted(one.commit_ts) for one in message.events]
    if all(stays):
        return body
    if not any(stays):
        return b""
    whole = _CUT.decode(body)
    whole.events = [event for event, one in zip(whole.events, stays, strict=True) if one]
    return _json(whole)
