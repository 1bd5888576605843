"""What the Pumps need not send: transactions that change nothing but filtered tables (ADR 13)."""

from __future__ import annotations

import msgspec


class Unwanted(msgspec.Struct, frozen=True):
    """Ids of tables that are filtered under every name they ever had; it holds for transactions of
    a schema version up to `upto_version`. Nothing newer is judged by it, and no id that nobody
    has met."""

    table_ids: tuple[int, ...] = ()
    upto_version: int = 0
