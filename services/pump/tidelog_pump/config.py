"""The Pump's configuration (design sections 3, 6, 7)."""

from __future__ import annotations

import re
from typing import Literal

from tidelog.config import ServiceConfig
from tidelog.errors import ConfigError

_DAY_S = 86400.0
_UNIT_S = {"d": _DAY_S, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|ns|d|h|m|s)")


def parse_retention(value: str | int) -> float:
    """Seconds of `gc`: a bare number is days, else a duration as Go writes them ("168h", "1h30m"),
    days allowed ("7d"). Raises ConfigError."""
    text = str(value).strip()
    parts = _PART.findall(text)
    if text.isascii() and text.isdigit():
        seconds = int(text) * _DAY_S
    elif "".join(number + unit for number, unit in parts) == text:
        seconds = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    else:
        seconds = 0.0
    if not 0 < seconds <= 36500 * _DAY_S:
        raise ConfigError(
            f"{value!r} is no time to keep binlogs",
            hint='a number of days ("7"), or a duration above 0 ("168h", "36h30m")',
        )
    return seconds


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
