"""The Pump's configuration (design sections 3, 6, 7)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, NamedTuple

import msgspec

from tidelog.config import ServiceConfig
from tidelog.errors import ConfigError
from tidelog.ranges import DAY_S, Bytes, Period, Range, Span, check
from tidelog.security.tls import TlsFiles
from tidelog.upstream.config import UpstreamConfig

_UNIT_S = {"d": float(DAY_S), "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ms|us|ns|d|h|m|s)", re.ASCII)
_NUMBER = re.compile(r"\d+(?:\.\d*)?|\.\d+", re.ASCII)
KEPT_S = Range(0.001, 36500 * DAY_S, "seconds")
INTERVAL_S = Range(0.001, 30 * DAY_S, "seconds")
_KEPT_HINT = 'a number of days ("7"), or a duration above 0 ("168h", "36h30m"), at most 36500 days'
_INTERVAL_HINT = 'seconds (3600), or a duration above 0 ("1h", "10m"), at most 30 days'


def parse_duration(value: str | float, bare_s: float) -> float | None:
    """Seconds of a duration as Go writes them ("168h", "1h30m"), days allowed ("7d"); a number
    without a unit counts `bare_s` each. None if it is none."""
    text = str(value).strip()
    parts = _PART.findall(text)
    if _NUMBER.fullmatch(text):
        return float(text) * bare_s
    if text and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    return None


def parse_retention(value: str | float, key: str = "gc") -> float:
    """Seconds of `gc` and `gc-hard-cap`; a number without a unit is days. Raises ConfigError."""
    seconds = parse_duration(value, DAY_S)
    if seconds is None or not KEPT_S.takes(seconds):
        raise ConfigError(f"{key} {value!r} is no time to keep binlogs", hint=_KEPT_HINT)
    return seconds


def parse_interval(value: str | float) -> float:
    """Seconds of `gc-interval`; a number without a unit is seconds, as of the other intervals.
    Raises ConfigError."""
    seconds = parse_duration(value, 1.0)
    if seconds is None or not INTERVAL_S.takes(seconds):
        raise ConfigError(f"gc-interval {value!r} is no time between runs", hint=_INTERVAL_HINT)
    return seconds


_SIZE = re.compile(r"(\d+(?:\.\d*)?|\.\d+)\s*([kmgtp]?)(i?)(b?)", re.IGNORECASE)
MAX_SIZE = 1 << 60
_SIZE_HINT = 'bytes, or as "10 gib", "500 MiB", "2 gb", at most 2^60'
AUTO = "auto"
KEPT_FREE = 10 << 30
"""`stop-write-at-available-space` by default, on a disk ten times as large."""


def parse_size(value: str | int, key: str = "size") -> int:
    """Bytes: a number, or one with a unit, "10 gib" (1024s) or "10 gb" (1000s). Raises
    ConfigError."""
    match = _SIZE.fullmatch(str(value).strip())
    size = math.inf
    if match is not None and str(value).isascii():
        number, prefix, binary, _ = match.groups()
        base = 1024 if binary or not prefix else 1000
        size = float(number) * base ** ("kmgtp".index(prefix.lower()) + 1 if prefix else 0)
    if size > MAX_SIZE:
        raise ConfigError(f"{key} {value!r} is no size", hint=_SIZE_HINT)
    return int(size)


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
    slow_write_threshold: Period = 1.0
    """A write or sync of the log that takes longer is logged; if handing over to the index takes
    longer, the slow chaser takes over; seconds."""

    def __post_init__(self) -> None:
        check(self)

    def kept_free(self, capacity: int) -> int:
        """Bytes below which Prewrites are refused, on a disk of `capacity`. Raises ConfigError."""
        if self.stop_write_at_available_space == AUTO:
            return min(KEPT_FREE, capacity // 10)
        key = "storage.stop-write-at-available-space"
        return parse_size(self.stop_write_at_available_space, key)


_ROCKS = "remove it: the index is RocksDB, derived from the log, and sizes itself"
_PUSH = "remove it: nothing is pushed, let Prometheus scrape /metrics at http-addr"


class PumpConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """Sizes in bytes, times in seconds. Keys of the original keep its names and defaults."""

    unused: ClassVar[Mapping[str, str]] = {
        "addr": "gRPC listens on grpc-addr, HTTP on http-addr",
        "pd-urls": "nodes find each other by nats-url; what is asked of PD, upstream.pd-urls says",
        "log-file": "remove it: the log goes to stderr, redirect that",
        "enable-debug": 'use log-level = "debug"',
        "metrics-addr": _PUSH,
        "metrics-interval": _PUSH,
        "max-message-size": "remove it: messages up to 2 GiB are taken",
        "fake-binlog-interval": "its name is gen-binlog-interval",
        "storage.kv-chan-cap": "remove it: what waits for the index is bounded in bytes",
        "storage.kv": _ROCKS,
    }

    oracle: Literal["embedded", "pd", "follow"] = "embedded"
    """Who vouches for timestamps (I9): the registry, PD, or the binlogs themselves."""
    upstream: UpstreamConfig = UpstreamConfig()
    """Where it is set, TiKV says what became of a transaction whose Commit does not come."""
    grpc_addr: str = ""
    """HOST:PORT of the gRPC service; empty = none."""
    socket: str = ""
    """The gRPC service's unix socket (TiDB's binlog-socket), PATH or unix://PATH; empty = none."""
    grpc_compression: Literal["none", "gzip"] = "none"
    """Of PullBinlogs answers, for callers that accept it."""
    advertise_addr: str = ""
    """The gRPC address others use; empty = the bound one."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """What the client's label strategy picks Pumps by, `zone=a,rack=3`."""
    slots_dir: str = ""
    """A directory that several Pumps share: each takes a free slot of it as its data directory."""
    max_slots: Annotated[int, Range(1, 1024)] = 64
    """So many slots `slots-dir` may have."""
    adopt_after_s: Annotated[float, Range(0, 30 * DAY_S, "seconds")] = 60.0
    """A slot that nobody has served for so long is drained by a running Pump; 0 = never."""
    segment_bytes: Bytes = 500 << 20
    """A file of the log that would get larger is closed, and the next one begun."""
    index_buffer_bytes: Bytes = 16 << 20
    """What may wait in memory for the index; beyond it, the slow chaser."""
    txn_timeout_s: Annotated[float, Range(1, 30 * DAY_S, "seconds")] = 600.0
    """From this age on an open Prewrite's verdict may be forced."""
    resolve_after_s: Span = 1.0
    """From this age on the upstream is asked what became of an open Prewrite."""
    clock_skew_s: Span = 60.0
    """Under `follow`, a timestamp further ahead of this clock is not believed."""
    gen_binlog_interval: Period = 3.0
    """A fake binlog after so long without a write; none under `follow`."""
    heartbeat_interval: Period = 2.0
    """How often the registry is told its state and positions; seconds."""
    gc: str | float = 7
    """How long a segment is kept at least: days, or a duration ("168h"). Then it goes, once every
    registered consumer has read it."""
    gc_hard_cap: str | float = ""
    """From this age on it goes in any case, and that loss is counted and shown; empty = twice gc:
    as long again to mend a consumer that stands still, and a bound for the disk."""
    gc_interval: str | float = "1h"
    """Between two runs of the gc: seconds, or a duration ("10m")."""
    storage: StorageConfig = StorageConfig()
    security: TlsFiles = TlsFiles()

    @property
    def retention(self) -> Retention:
        """Raises ConfigError."""
        age_s = parse_retention(self.gc)
        cap_s = (
            parse_retention(self.gc_hard_cap, "gc-hard-cap")
            if self.gc_hard_cap != ""
            else 2 * age_s
        )
        if cap_s < age_s:
            raise ConfigError(
                f"gc-hard-cap {self.gc_hard_cap!r} is shorter than gc {self.gc!r}",
                hint="nothing goes before gc is over: give the hard cap as much, or more",
            )
        return Retention(age_s, cap_s, parse_interval(self.gc_interval))

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.retention
        if self.oracle == "pd" and not self.upstream.pd_urls:
            raise ConfigError(
                'oracle = "pd" needs to know where PD is', hint="upstream.pd-urls, http://HOST:2379"
            )
        self.storage.kept_free(0)
        port = self.grpc_addr.rpartition(":")[2]
        if self.grpc_addr and not (":" in self.grpc_addr and port.isdigit() and int(port) < 65536):
            raise ConfigError(
                f"grpc-addr {self.grpc_addr!r} is not HOST:PORT",
                hint="as 127.0.0.1:8250; port 0 is a free one",
            )
        if self.slots_dir and self.node_id:
            raise ConfigError(
                "slots-dir and node-id exclude each other",
                hint="leave node-id away: who takes a slot takes its node id, too",
            )

    @property
    def storage_dir(self) -> str:
        return self.slots_dir or self.data_dir
