"""The Drainer's configuration."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from tidelog.config import ServiceConfig
from tidelog.schema.tracker import SYSTEM_SCHEMAS

_FEED = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")

NOW = -1
"""`initial-commit-ts`: begin with what commits from now on."""


class DrainerConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """One Drainer publishes one feed. Sizes in bytes, times in seconds."""

    feed: str = "main"
    oracle: Literal["embedded", "follow"] = "embedded"
    """Who says what "now" is (I9): the registry, or what the Pumps have seen."""
    initial_commit_ts: int = 0
    """Where a feed begins that nobody has seen yet (exclusive); -1 = now."""
    start_ts: int = 0
    """Where a feed goes on whose stream is gone and whose position nothing tells; 0 = none."""
    accept_loss: bool = False
    """Such a feed may go on where it was last pulled, whatever its readers have missed."""
    ddl_history: str = "embedded"
    ignore_schemas: tuple[str, ...] = tuple(sorted(SYSTEM_SCHEMAS))
    ddl_policy: dict[str, str] = msgspec.field(default_factory=dict)
    """DDL kind -> "forward", "skip" or "stop", over the defaults of ddl_policy.py."""

    batch_messages: int = 1000
    batch_bytes: int = 4 << 20
    source_buffer_bytes: int = 16 << 20
    pull_bytes: int = 4 << 20
    """Asked of a Pump in one pull; it answers with frames of at most 512 KiB."""
    pull_compression: Literal["none", "zstd", "gzip"] = "none"
    """How the Pumps' frames may come; worth it where the network is slower than a disk."""
    lease_s: float = 6.0
    """How long an untrusted membership bucket is waited for (I3)."""
    changes_max_age_s: float = 7 * 86400.0
    changes_max_bytes: int = 10 << 30

    def __post_init__(self) -> None:
        if not _FEED.fullmatch(self.feed):
            raise ValueError(f"feed {self.feed!r}: lower-case letters, digits, - and _ only")
        if not 2 <= self.batch_messages <= 1000:
            raise ValueError("batch-messages: 2 to 1000, the server's limit for an atomic batch")
        for kind, action in sorted(self.ddl_policy.items()):
            if action not in ("forward", "skip", "stop"):
                raise ValueError(f"ddl-policy {kind}={action}: forward, skip or stop")

    @property
    def node(self) -> str:
        return self.node_id or f"drainer-{self.feed}"
