"""The messages of the Drainer's actors. Cursors tell the collector, the collector the publisher."""

from __future__ import annotations

import msgspec

from tidelog.actor import Reply
from tidelog.drainer_control import DrainerRequest, FeedDdls
from tidelog.filter.unwanted import Unwanted
from tidelog.lease import Hold
from tidelog.rewind import Replay, Rewind
from tidelog_drainer.merge.merger import Txn


class Pulled(msgspec.Struct, frozen=True):
    """Cursor -> collector: what a Pump delivered. Answered when its buffer has room for more, with
    what the Pump need not send."""

    node: str
    txns: list[Txn]
    resolved: int
    size: int
    left_out: int
    """Unwanted transactions that the Pump did not send."""
    reply: Reply[Unwanted]


class PumpJoins(msgspec.Struct, frozen=True):
    """The registry's online notification (I4). Answered once the Pump is a source."""

    node: str
    reply: Reply[None]


class Nudge(msgspec.Struct, frozen=True):
    """Collector -> cursor, never waiting: make the Pump learn a timestamp >= `want_ts`."""

    want_ts: int


class AskStart(msgspec.Struct, frozen=True):
    """Collector -> publisher: where does the merge begin?"""

    reply: Reply[Begin]


class Begin(msgspec.Struct, frozen=True):
    """After `commit_ts`. `chain`, `apart`: `publish.lives.Risen`."""

    commit_ts: int
    chain: int
    apart: int


class Merged(msgspec.Struct, frozen=True):
    """Collector -> publisher: everything up to `upto`, in order. Answered when more may come, with
    what the Pumps need not send."""

    txns: list[Txn]
    upto: int
    size: int
    reply: Reply[Unwanted]


class Leave(msgspec.Struct, frozen=True):
    """Membership -> collector: read nothing any more, for the rest of this life."""

    reply: Reply[None]


class Control(msgspec.Struct, frozen=True):
    """Control edge -> publisher: an operator's question or order. Answered once it is obeyed."""

    request: DrainerRequest
    reply: Reply[FeedDdls]


class AskPublished(msgspec.Struct, frozen=True):
    """Membership -> publisher: where is the feed? Answered at once."""

    reply: Reply[Published]


class Published(msgspec.Struct, frozen=True):
    """Published up to `commit_ts`, under `epoch`; `error` says why it goes no further. `quiet`: it
    is held, and nothing is in hand."""

    commit_ts: int
    epoch: int
    error: str = ""
    quiet: bool = False


class AskRewind(msgspec.Struct, frozen=True):
    """A reader -> rewinder: fill what the stream no longer holds."""

    request: Rewind
    reply: Reply[Replay]


RewinderMail = AskRewind | Hold
CollectorMail = Pulled | PumpJoins | Leave
PublisherMail = AskStart | Merged | AskPublished | Hold | Control
