"""The registry's configuration."""

from __future__ import annotations

from tidelog.config import ServiceConfig
from tidelog.ranges import Span

ORACLES = ("embedded", "pd", "follow")


class RegistryConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """`oracle`: who gives the transactions their timestamps (I9); only with `embedded` is it us.
    `cluster_id` 0 takes nodes of any cluster id."""

    oracle: str = "embedded"
    clock_skew_s: Span = 60.0
    """A position further ahead of this clock does not move the oracle, except a Pump's W."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.oracle not in ORACLES:
            raise ValueError(f"oracle {self.oracle!r}: one of {', '.join(ORACLES)}")
