"""The Applier's configuration."""

from __future__ import annotations

from typing import Annotated

from tidelog.config import Secret, ServiceConfig
from tidelog.ranges import Bytes, Period, Range, Timestamp


class ApplierConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """One Applier writes one feed into one downstream. Sizes in bytes, times in seconds."""

    feed: str = "main"
    downstream: str = ""
    """`sqlite:////absolute/path`, `mysql://USER@HOST:PORT/`, `file:///absolute/directory`,
    `blackhole:`."""
    downstream_password: Secret = Secret()
    """The account's, if the URL has none; `downstream-password-file` keeps it out of arguments and
    the environment."""
    start_ts: Timestamp = 0
    """Where to begin with a downstream that has no checkpoint (exclusive): it holds everything up
    to there; 0 = nothing, so that a stream which has lost its beginning is a gap."""
    group_rows: Annotated[int, Range(1, 10_000_000, "rows")] = 5000
    """A downstream transaction takes whole upstream ones until it has this many rows …"""
    group_bytes: Bytes = 4 << 20
    """… or about this many bytes."""
    checkpoint_s: Period = 3.0
    """How often the position is saved while only watermarks come."""

    @property
    def node(self) -> str:
        return self.node_id or f"applier-{self.feed}"
