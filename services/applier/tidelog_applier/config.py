"""The Applier's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec

from tidelog.config import Secret, ServiceConfig
from tidelog.feeds import check_name
from tidelog.filter.loopback import check_place
from tidelog.ranges import DAY_S, Bytes, Period, Range, Timestamp

SPOOL = "spool"
"""Below `data-dir`: where large batches wait if there is no relay log."""


class RelayConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The relay log (seed 002)."""

    log_dir: str = "relay"
    """A directory, relative to `data-dir`; empty = no relay log: then only what was applied
    outlives a loss of the upstream."""
    max_file_size: Bytes = 10 << 20
    """A file that has reached it is followed by the next one, after a whole transaction."""


class ApplierConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """One Applier writes one feed into one downstream. Sizes in bytes, times in seconds."""

    unused: ClassVar[Mapping[str, str]] = {
        "syncer": "its keys stand at the top level, or in the Drainer's configuration",
    }

    feed: str = "main"
    """Which one it applies."""
    downstream: str = ""
    """`sqlite:////absolute/path`, `mysql://USER@HOST:PORT/`, `file:///absolute/directory`,
    `blackhole:`."""
    downstream_password: Secret = Secret()
    """The account's, if the URL has none; `downstream-password-file` keeps it out of arguments and
    the environment."""
    start_ts: Timestamp = 0
    """Where to begin with a downstream that has no checkpoint (exclusive): it holds everything up
    to there; 0 = nothing, so that a stream which has lost its beginning is a gap."""
    standby_of: str = ""
    """The node id of the Applier whose place this one takes when it is gone: both have the same
    feed and downstream."""
    mode: Literal["parallel", "atomic"] = "parallel"
    """`atomic`: whole upstream transactions in one downstream transaction, by one writer."""
    worker_count: Annotated[int, Range(1, 128, "connections")] = 4
    """Lanes that write at once, at most."""
    txn_batch: Annotated[int, Range(1, 1_000_000, "rows")] = 5000
    """Rows that are handed out at once, about: whole batches of the stream, of which one with more
    is cut (not below 1000 rows; `mode = "atomic"` hands out whole transactions). Each lane writes
    its share of them in one downstream transaction."""
    buffer_bytes: Bytes = 16 << 20
    """Row messages on their way downstream at once."""
    on_refused: Literal["stop", "skip"] = "stop"
    """A row that the downstream refuses: stop, or write it into `refused.jsonl` of `data-dir` and
    leave it out. A refused DDL, and rows of tables without a key, always stop."""
    checkpoint_s: Period = 3.0
    """How often the position is saved."""
    checkpoint_table: str = "tidb_binlog.checkpoint"
    """One serves one feed. With `loopback-control` it is in `tidb_binlog`, which the Drainer of the
    other direction never publishes."""
    ddl_timeout_s: Annotated[float, Range(0, 7 * DAY_S, "seconds")] = 0.0
    """How long one statement of a DDL may take; 0 = as long as it takes."""
    recover_after_s: Period = 60.0
    """So long without the upstream, and the downstream is made consistent from the relay log."""
    recover: bool = False
    """Do so now, without looking for the upstream, and end."""
    sync_mode: Literal[1, 2] = 1
    """2: columns may be missing on either side (seed 004)."""
    loopback_control: bool = False
    """Mark each transaction for the Drainer that replicates the downstream back (seed 004)."""
    channel_id: Annotated[int, Range(0, (1 << 63) - 1)] = 0
    """The same in both directions."""
    mark_schema: str = "retl"
    """Where the mark table is: a schema of its own, one value for Drainers and Appliers of both
    directions."""
    relay: RelayConfig = RelayConfig()

    def __post_init__(self) -> None:
        """Raises ConfigError, ValueError."""
        super().__post_init__()
        check_name(self.feed)
        if self.loopback_control:
            check_place(self.checkpoint_table)

    @property
    def node(self) -> str:
        return self.node_id or f"applier-{self.feed}"

    @property
    def scheme(self) -> str:
        """What kind of downstream the URL names, in lower case."""
        return self.downstream.partition(":")[0].lower()

    @property
    def relay_dir(self) -> str:
        """The relay log's directory; "" = none is kept. A dry run keeps none: each of its starts
        begins at `start-ts` again, below what an earlier one read and let go."""
        return "" if self.scheme == "blackhole" else self.relay.log_dir

    @property
    def copy(self) -> str:
        """What an Applier and its standbys keep up together: a consumer of the feed."""
        return self.standby_of or self.node
