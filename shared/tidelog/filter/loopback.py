"""Loopback (seed 004, appendix B.16): what another Drainer wrote here is not published again.

Whoever writes a feed into a cluster that is replicated back begins each of its transactions with
an update of the mark table. A transaction with a mark of our channel is dropped whole.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.errors import ConfigError
from tidelog.rows.table_codec import RowChange

MARK_SCHEMA, MARK_TABLE = "retl", "_drainer_repl_mark"
CHECKPOINT_SCHEMA = "tidb_binlog"
"""Where both directions keep their positions: published, each would echo the other's."""
LOOPBACK = "loopback"
"""Reason under which whole transactions are counted."""
_CHANNEL = "channel_id"


def check_place(checkpoint_table: str) -> None:
    """Of an Applier, or a bulk job, with loopback. Raises ConfigError."""
    schema, _, _ = checkpoint_table.rpartition(".")
    if schema and schema.lower() != CHECKPOINT_SCHEMA:
        raise ConfigError(
            f"with loopback-control checkpoint-table {checkpoint_table} would be replicated: the"
            " Drainer there publishes it, and the other direction's is written over",
            hint=f"name one in {CHECKPOINT_SCHEMA}, as {CHECKPOINT_SCHEMA}.mine",
        )


def has_channel(changes: Iterable[RowChange], channel_id: int) -> bool:
    """Whether a row of the mark table, as it was or as it is, belongs to the channel."""
    return any(
        name.lower() == _CHANNEL and value == channel_id
        for change in changes
        for image in (change.before, change.after)
        if image is not None
        for name, value in image.items()
    )
