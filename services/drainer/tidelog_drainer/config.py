"""The Drainer's configuration."""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec

from tidelog.config import ServiceConfig
from tidelog.ranges import DAY_S, Bytes, Period, Range, Timestamp
from tidelog.schema.tracker import SYSTEM_SCHEMAS
from tidelog.timestamps import TS_MAX

_FEED = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

NOW = -1
"""`initial-commit-ts`: begin with what commits from now on."""


class DrainerConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """One Drainer publishes one feed. Sizes in bytes, times in seconds."""

    feed: str = "main"
    oracle: Literal["embedded", "follow"] = "embedded"
    """Who says what "now" is (I9): the registry, or what the Pumps have seen."""
    initial_commit_ts: Annotated[int, Range(NOW, TS_MAX)] = 0
    """Where a feed begins that nobody has seen yet (exclusive); -1 = now."""
    start_ts: Timestamp = 0
    """Where a feed goes on whose stream is gone and whose position nothing tells; 0 = none."""
    accept_loss: bool = False
    """Such a feed may go on where it was last pulled, whatever its readers have missed."""
    ddl_history: str = "embedded"
    ignore_schemas: tuple[str, ...] = tuple(sorted(SYSTEM_SCHEMAS))
    ddl_policy: dict[str, str] = msgspec.field(default_factory=dict)
    """DDL kind -> "forward", "skip" or "stop", over the defaults of ddl_policy.py."""

    batch_messages: Annotated[int, Range(2, 1000)] = 1000
    """At most the server's limit for an atomic batch."""
    batch_bytes: Bytes = 4 << 20
    source_buffer_bytes: Bytes = 16 << 20
    pull_bytes: Annotated[int, Range(1, (1 << 32) - 1, "bytes")] = 4 << 20
    """Asked of a Pump in one pull; it answers with frames of at most 512 KiB."""
    pull_compression: Literal["none", "zstd", "gzip"] = "none"
    """How the Pumps' frames may come; worth it where the network is slower than a disk."""
    lease_s: Period = 6.0
    """How long an untrusted membership bucket is waited for (I3)."""
    changes_max_age_s: Annotated[float, Range(0, 36500 * DAY_S, "seconds")] = 7 * 86400.0
    """How long the stream keeps a change; 0 = as long as there is room."""
    changes_max_bytes: Annotated[int, Range(0, 1 << 60, "bytes")] = 10 << 30
    """0 = what the server's store has."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not _FEED.fullmatch(self.feed):
            raise ValueError(f"feed {self.feed!r}: lower-case letters, digits, - and _ only")
        for kind, action in sorted(self.ddl_policy.items()):
            if action not in ("forward", "skip", "stop"):
                raise ValueError(f"ddl-policy {kind}={action}: forward, skip or stop")

    @property
    def node(self) -> str:
        return self.node_id or f"drainer-{self.feed}"
