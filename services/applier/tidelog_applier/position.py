"""What the Applier has reached, and whether it shall go on. Shared with the membership agent: the
Applier's mailbox may be busy with a long group or DDL when a heartbeat is due."""

from __future__ import annotations

import msgspec


class Position(msgspec.Struct):
    """`checkpoint` is durable downstream (the safe point may follow it), `applied` may be ahead of
    it by watermarks. None until the downstream was read. `held`, the agent's: apply nothing more;
    `quiet`, the Applier's: it does so, and all that it applied is in the checkpoint."""

    checkpoint: int | None = None
    applied: int = 0
    error: str = ""
    txns: int = 0
    rows: int = 0
    skipped: int = 0
    """Rows that the downstream refused and `on-refused` left out."""
    held: bool = False
    quiet: bool = False
    away: bool = False
    """An operator lets somebody else write the downstream, while `held`."""
