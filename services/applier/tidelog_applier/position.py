"""What the Applier has reached. Written by the Applier alone, read by the membership agent: the
Applier's mailbox may be busy with a long group or DDL when a heartbeat is due."""

from __future__ import annotations

import msgspec


class Position(msgspec.Struct):
    """`checkpoint` is durable downstream (the safe point may follow it), `applied` may be ahead of
    it by watermarks. None until the downstream was read."""

    checkpoint: int | None = None
    applied: int = 0
    error: str = ""
