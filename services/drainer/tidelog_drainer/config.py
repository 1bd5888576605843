"""The Drainer's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from tidelog.decode.config import DecodeConfig
from tidelog.errors import ConfigError
from tidelog.ranges import DAY_S, Bytes, Period, Range, Timestamp
from tidelog.subjects import is_replay
from tidelog.upstream.config import UpstreamConfig

PD = "pd"
"""A `ddl-history`."""


class DrainerConfig(DecodeConfig, frozen=True, kw_only=True, rename="kebab"):
    """One Drainer publishes one feed. Sizes in bytes, times in seconds."""

    unused: ClassVar[Mapping[str, str]] = {
        "syncer": "its keys stand at the top level here: docs/filters.md",
        "sync-mode": "it belongs to who writes downstream: docs/filters.md",
        "case-sensitive": "names are compared without case",
    }

    start_ts: Timestamp = 0
    """Where a feed goes on whose stream is gone and whose position nothing tells; 0 = none."""
    accept_loss: bool = False
    """Such a feed may go on where it was last pulled, whatever its readers have missed."""
    ddl_history: str = "embedded"
    """Where the schema comes from: embedded (the registry's), file:PATH, the status address of a
    TiDB, http(s)://HOST:PORT, or pd: TiKV itself, which upstream.pd-urls lead to."""
    upstream: UpstreamConfig = UpstreamConfig()
    envelope: Literal["tidelog", "debezium"] = "tidelog"
    """How changes are written: as our readers and the Applier know them, or as Debezium's do."""

    batch_messages: Annotated[int, Range(2, 1000)] = 1000
    """Of one batch; at most the server's limit for an atomic one."""
    batch_bytes: Bytes = 4 << 20
    """A batch that has reached it is published."""
    source_buffer_bytes: Bytes = 16 << 20
    """What of one Pump may wait to be merged; then it is not pulled from."""
    spool_above: Bytes = 16 << 20
    """A larger transaction waits in a file of the data directory, and goes out as it is read."""
    pull_bytes: Annotated[int, Range(1, (1 << 32) - 1, "bytes")] = 4 << 20
    """Asked of a Pump in one pull; it answers with frames of at most 512 KiB."""
    pull_compression: Literal["none", "zstd", "gzip"] = "none"
    """How the Pumps' frames may come; worth it where the network is slower than a disk."""
    lease_s: Period = 6.0
    """How long an untrusted membership bucket is waited for (I3)."""
    changes_max_age_s: Annotated[float, Range(0, 36500 * DAY_S, "seconds")] = 7 * 86400.0
    """How long the stream keeps a change; 0 = as long as there is room. Of one that is made: one
    that is there stays as it is."""
    changes_max_bytes: Annotated[int, Range(0, 1 << 60, "bytes")] = 10 << 30
    """0 = what the server's store has. Of a stream that is made, too."""
    rewind_bytes: Bytes = 256 << 20
    """What one rewind fills for a reader; what is missing then, the reader asks for again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ddl_history == PD and not self.upstream.pd_urls:
            raise ConfigError(
                'ddl-history = "pd" needs to know where PD is',
                hint="upstream.pd-urls, http://HOST:2379",
            )
        if self.upstream.security.on and not (
            self.upstream.pd_urls or self.ddl_history.startswith("https:")
        ):
            raise ConfigError(
                "upstream.security names files, and nothing is asked with them",
                hint="https:// in ddl-history or upstream.pd-urls, or take the files away",
            )

    @property
    def is_replay(self) -> bool:
        """Its `feed` is `<feed>=<reader>`: made by rewind/filling.py, configured by nobody."""
        return is_replay(self.feed)

    @property
    def node(self) -> str:
        return self.node_id or f"drainer-{self.feed}"
