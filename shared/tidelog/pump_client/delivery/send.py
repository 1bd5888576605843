"""The message a lane takes."""

from __future__ import annotations

import msgspec

from tidelog.actor import Reply


class Send(msgspec.Struct, frozen=True, gc=False):
    """One serialised Binlog for one Pump; the reply is set when the Pump acked it."""

    payload: bytes
    reply: Reply[None]
