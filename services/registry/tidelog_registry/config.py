"""The registry's configuration."""

from __future__ import annotations

from tidelog.config import ServiceConfig
from tidelog.ranges import Span
from tidelog.upstream.config import UpstreamConfig

ORACLES = ("embedded", "pd", "follow")


class RegistryConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """`cluster_id` 0 takes nodes of any cluster id."""

    oracle: str = "embedded"
    """Who gives the transactions their timestamps (I9): embedded = the registry; follow = the
    upstream, as its binlogs tell; pd = the upstream's PD."""
    upstream: UpstreamConfig = UpstreamConfig()
    clock_skew_s: Span = 60.0
    """A position further ahead of this clock does not move the oracle, except a Pump's W."""
    console_addr: str = ""
    """Where the page is served that shows what goes on, HOST:PORT; "" = nowhere. Whoever reaches
    it may read it. Port 0: a free one, the same again after a restart."""
    console_hosts: tuple[str, ...] = ()
    """Names by which browsers may ask for the page, besides localhost and addresses: a proxy's, for
    example. A page of somebody else's name, which it has lead to our address, is refused."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.oracle not in ORACLES:
            raise ValueError(f"oracle {self.oracle!r}: one of {', '.join(ORACLES)}")
