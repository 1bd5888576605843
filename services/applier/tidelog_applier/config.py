"""The Applier's configuration."""

from __future__ import annotations

from tidelog.config import ServiceConfig


class ApplierConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """One Applier writes one feed into one downstream. Sizes in bytes, times in seconds."""

    feed: str = "main"
    downstream: str = ""
    """`sqlite:////absolute/path`, `mysql://USER:PASSWORD@HOST:PORT/`."""
    start_ts: int = 0
    """Where to begin with a downstream that has no checkpoint (exclusive): it holds everything up
    to there; 0 = nothing, so that a stream which has lost its beginning is a gap."""
    group_rows: int = 5000
    """A downstream transaction takes whole upstream ones until it has this many rows …"""
    group_bytes: int = 4 << 20
    """… or about this many bytes."""
    checkpoint_s: float = 3.0
    """How often the position is saved while only watermarks come."""

    def __post_init__(self) -> None:
        if self.group_rows < 1 or self.group_bytes < 1:
            raise ValueError("group-rows and group-bytes must be at least 1")
        if self.checkpoint_s <= 0:
            raise ValueError("checkpoint-s must be above 0")

    @property
    def node(self) -> str:
        return self.node_id or f"applier-{self.feed}"
