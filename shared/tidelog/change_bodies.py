"""The change stream's messages back into what they say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from tidelog import changes
from tidelog.changes import DdlMessage, Marker, RowMessage, Watermark
from tidelog.errors import UnparsablePayload
from tidelog.ports import Message
from tidelog.timestamps import TS_MAX
from tidelog.unreadable import NOT_READABLE

S = TypeVar("S")


class OtherEnvelope(UnparsablePayload):
    """The feed's rows and DDLs are written for other readers."""

    default_hint = "read another feed, whose Drainer has the envelope `tidelog`"


class RowHead(msgspec.Struct, frozen=True, gc=False):
    """Which table a RowMessage is of: its fields but for the events."""

    db: str
    table: str
    schema_version: int


class MarkHead(msgspec.Struct, frozen=True, gc=False):
    """What a Marker and a Watermark have in common."""

    prev_commit_ts: int


_HEAD = msgspec.json.Decoder(RowHead)
_ROWS = msgspec.json.Decoder(RowMessage)
_DDL = msgspec.json.Decoder(DdlMessage)
_MARKER = msgspec.json.Decoder(Marker)
_MARK_HEAD = msgspec.json.Decoder(MarkHead)
_WATERMARK = msgspec.json.Decoder(Watermark)


def rows_of(message: Message) -> RowMessage:
    """As the others: raises UnparsablePayload for a body that is none of ours."""
    return _decode(_ROWS, message)


def head_of(message: Message) -> RowHead:
    """Of a row message; its events are only known to be JSON."""
    return _decode(_HEAD, message)


def ddl_of(message: Message) -> DdlMessage:
    return _decode(_DDL, message)


def marker_of(message: Message) -> Marker:
    """One that has transactions."""
    marker = _decode(_MARKER, message)
    if not marker.txns:
        raise UnparsablePayload(f"marker {message.sequence} has no transactions")
    for txn in marker.txns:
        _check_ts(message, txn.commit_ts)
    return marker


def watermark_of(message: Message) -> Watermark:
    mark = _decode(_WATERMARK, message)
    _check_ts(message, mark.resolved_ts)
    return mark


def prev_of(message: Message) -> int:
    """The commit_ts that a marker or watermark follows in its feed."""
    return _decode(_MARK_HEAD, message).prev_commit_ts


def _check_ts(message: Message, ts: int) -> None:
    if not 0 <= ts <= TS_MAX:
        raise UnparsablePayload(f"{message.subject} at {message.sequence}: {ts} is no timestamp")


def number_of(message: Message, header: str, default: str = "0") -> int:
    """What a header says. Raises UnparsablePayload."""
    return _number(message, message.headers.get(header, default))


def _number(message: Message, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise UnparsablePayload(
            f"{message.subject} at {message.sequence}: a header has {text[:40]!r} for a number"
        )
    return int(text)


def rows_in(message: Message) -> int:
    """By the header: `c=3,u=1,d=0`; of a message in fragments the first one counts."""
    if not message.headers.get(changes.H_FRAGMENT, "0/").startswith("0/"):
        return 0
    counts = message.headers.get(changes.H_OPS, "").split(",")
    return sum(_number(message, count.partition("=")[2] or "0") for count in counts)


def _decode(decoder: msgspec.json.Decoder[S], message: Message) -> S:
    try:
        return decoder.decode(message.data)
    except NOT_READABLE as error:
        envelope = message.headers.get(changes.H_ENVELOPE)
        if envelope is not None:
            raise OtherEnvelope(f"{message.subject} has the envelope {envelope}") from error
        raise UnparsablePayload(f"{message.subject} at {message.sequence}: {error}") from error


class Joiner:
    """Fragments in order -> whole messages."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def whole(self, message: Message) -> Message | None:
        """The message itself, or what its fragments make with the last of them."""
        fragment = message.headers.get(changes.H_FRAGMENT)
        if fragment is None:
            return message
        self._pieces.append(message.data)
        index, _, count = fragment.partition("/")
        if _number(message, index) + 1 < _number(message, count):
            return None
        pieces, self._pieces = self._pieces, []
        return msgspec.structs.replace(message, data=b"".join(pieces))


def joined(messages: Iterable[Message]) -> Iterator[Message]:
    """A batch's messages, each whole."""
    joiner = Joiner()
    for message in messages:
        whole = joiner.whole(message)
        if whole is not None:
            yield whole
