"""The Pump's configuration (design sections 3, 6, 7)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import msgspec

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


_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmgtp]?)(i?)(b?)", re.IGNORECASE)
AUTO = "auto"
KEPT_FREE = 10 << 30
"""`stop-write-at-available-space` by default, on a disk ten times as large."""


def parse_size(value: str | int) -> int:
    """Bytes: a number, or one with a unit, "10 gib" (1024s) or "10 gb" (1000s). Raises
    ConfigError."""
    match = _SIZE.fullmatch(str(value).strip())
    if match is None or not str(value).isascii():
        raise ConfigError(f"{value!r} is no size", hint='bytes, or as "10 gib", "500 MiB", "2 gb"')
    number, prefix, binary, _ = match.groups()
    base = 1024 if binary or not prefix else 1000
    return int(float(number) * base ** ("kmgtp".index(prefix.lower()) + 1 if prefix else 0))


class Retention(NamedTuple):
    """`gc`, `gc-hard-cap` and `gc-interval` in seconds."""

    age_s: float
    hard_cap_s: float
    interval_s: float


class StorageConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """The table `[storage]`, as the original has it."""

    sync_log: bool = True
    """False: an ack promises nothing after a power loss."""
    stop_write_at_available_space: str | int = AUTO
    """Prewrites are refused below it; "auto" = 10 gib, or a tenth of a disk below 100 gib."""
    slow_write_threshold: float = 1.0
    """A write or sync of the log that takes longer is logged; if handing over to the index takes
    longer, the slow chaser takes over; seconds."""

    def kept_free(self, capacity: int) -> int:
        """Bytes below which Prewrites are refused, on a disk of `capacity`. Raises ConfigError."""
        if self.stop_write_at_available_space == AUTO:
            return min(KEPT_FREE, capacity // 10)
        return parse_size(self.stop_write_at_available_space)


_ROCKS = "remove it: the index is RocksDB, derived from the log, and sizes itself"
_TLS = "remove it: the gRPC service speaks plain text; keep it on a private network or the socket"
_PUSH = "remove it: nothing is pushed, let Prometheus scrape /metrics at http-addr"


class PumpConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """Sizes in bytes, times in seconds. Keys of the original keep its names and defaults."""

    unused: ClassVar[Mapping[str, str]] = {
        "addr": "gRPC listens on grpc-addr, HTTP on http-addr",
        "pd-urls": "nats-url says where the cluster is, oracle who gives timestamps",
        "log-file": "remove it: the log goes to stderr, redirect that",
        "enable-debug": 'use log-level = "debug"',
        "metrics-addr": _PUSH,
        "metrics-interval": _PUSH,
        "max-message-size": "remove it: messages up to 2 GiB are taken",
        "fake-binlog-interval": "its name is gen-binlog-interval",
        "security": _TLS,
        "storage.kv-chan-cap": "remove it: what waits for the index is bounded in bytes",
        "storage.kv": _ROCKS,
        **{f"security.{key}": _TLS for key in ("ssl-ca", "ssl-cert", "ssl-key", "cert-allowed-cn")},
    }

    oracle: Literal["embedded", "follow"] = "embedded"
    """Who vouches for timestamps (I9): the registry, or the binlogs themselves."""
    grpc_addr: str = ""
    """HOST:PORT of the gRPC service; empty = none."""
    socket: str = ""
    """The gRPC service's unix socket (TiDB's binlog-socket), PATH or unix://PATH; empty = none."""
    grpc_compression: Literal["none", "gzip"] = "none"
    """Of PullBinlogs answers, for callers that accept it."""
    advertise_addr: str = ""
    """The gRPC address others use; empty = the bound one."""
    segment_bytes: int = 500 << 20
    index_buffer_bytes: int = 16 << 20
    """What may wait in memory for the index; beyond it, the slow chaser."""
    txn_timeout_s: float = 600.0
    """From this age on an open Prewrite's verdict may be forced."""
    resolve_after_s: float = 1.0
    clock_skew_s: float = 60.0
    gen_binlog_interval: float = 3.0
    """A fake binlog after so long without a write; none under `follow`."""
    heartbeat_interval: float = 2.0
    gc: str | int = 7
    """How long a segment is kept at least: days, or a duration ("168h"). Then it goes, once every
    registered consumer has read it."""
    gc_hard_cap: str | int = ""
    """From this age on it goes in any case, and that loss is counted and shown; empty = twice gc:
    as long again to mend a consumer that stands still, and a bound for the disk."""
    gc_interval: str = "1h"
    storage: StorageConfig = StorageConfig()

    @property
    def retention(self) -> Retention:
        """Raises ConfigError."""
        age_s = parse_retention(self.gc)
        cap_s = parse_retention(self.gc_hard_cap) if self.gc_hard_cap != "" else 2 * age_s
        if cap_s < age_s:
            raise ConfigError(
                f"gc-hard-cap {self.gc_hard_cap!r} is shorter than gc {self.gc!r}",
                hint="nothing goes before gc is over: give the hard cap as much, or more",
            )
        return Retention(age_s, cap_s, parse_retention(self.gc_interval))

    def __post_init__(self) -> None:
        for name, value in (
            ("gen-binlog-interval", self.gen_binlog_interval),
            ("heartbeat-interval", self.heartbeat_interval),
            ("storage.slow-write-threshold", self.storage.slow_write_threshold),
        ):
            if not 0 < value < 86400:
                raise ConfigError(f"{name} is {value}", hint="seconds, above 0 and below a day")
        _ = self.retention
        self.storage.kept_free(0)
