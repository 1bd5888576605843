"""The Pump's configuration (design sections 3, 6, 7)."""

from __future__ import annotations

from typing import Literal

from tidelog.config import ServiceConfig


class PumpConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """Sizes in bytes, times in seconds."""

    oracle: Literal["embedded", "follow"] = "embedded"
    """Who vouches for timestamps (I9): the registry, or the binlogs themselves."""
    grpc_addr: str = ""
    """HOST:PORT of the gRPC service; empty = none."""
    socket: str = ""
    """Path of the unix socket of the gRPC service (TiDB's binlog-socket); empty = none."""
    advertise_addr: str = ""
    """The gRPC address others use; empty = the bound one."""
    sync_log: bool = True
    """False: an ack promises nothing after a power loss."""
    segment_bytes: int = 500 << 20
    txn_timeout_s: float = 600.0
    """From this age on an open Prewrite's verdict may be forced."""
    resolve_after_s: float = 1.0
    clock_skew_s: float = 60.0
    fake_interval_s: float = 3.0
    stop_write_at_available_space: int = 0
    """Prewrites are refused below it; 0 = 10 GiB, or a tenth of what is free at start if less."""
    heartbeat_s: float = 2.0
