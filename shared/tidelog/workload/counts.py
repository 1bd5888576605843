"""What the workload did so far."""

from __future__ import annotations

import msgspec


class Counts(msgspec.Struct):
    """`failed`: no Pump acked the Prewrite; of these `unknown` may be held by one. `died`: clients
    that wrote neither Commit nor Rollback."""

    started: int = 0
    committed: int = 0
    rolled_back: int = 0
    failed: int = 0
    unknown: int = 0
    died: int = 0
    rows: int = 0
    ddls: int = 0
    idle: int = 0
    """Transactions that found every table or row taken."""
