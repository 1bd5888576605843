"""The Pump's keys: the original's forms of values (original.md A.3, C.5)."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from tidelog.config import HelpRequested, load
from tidelog.errors import ConfigError
from tidelog.security.tls import TlsFiles
from tidelog_pump.config import (
    PumpConfig,
    StorageConfig,
    parse_interval,
    parse_retention,
    parse_size,
)
from tidelog_pump.parts import grpc_addresses


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (7, 604800.0),
        (0.5, 43200.0),
        ("7", 604800.0),
        ("168h", 604800.0),
        ("7d", 604800.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        (" 90s ", 90.0),
        ("1500ms", 1.5),
    ],
)
def test_retention_is_days_or_a_duration(value: str | int, seconds: float) -> None:
    assert parse_retention(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        "",
        "0",
        "0h",
        "-3h",
        "h",
        "7 days",
        "1h-30m",
        "1e3h",
        "nan",
        "٧",
        10**30,
        "7h x",
        "1h 2",
    ],
)
def test_nonsense_is_no_retention(value: str | int) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_retention(value)
    assert raised.value.hint


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(3600, 3600.0), ("3600", 3600.0), ("10m", 600.0), ("0.1s", 0.1), (2.5, 2.5)],
)
def test_an_interval_without_a_unit_is_seconds(value: str | float, seconds: float) -> None:
    assert parse_interval(value) == seconds
    assert PumpConfig(gc_interval=value).retention.interval_s == seconds


@pytest.mark.parametrize("value", [0, -1, "0s", "", "31d", "nan", 10**9, "soon"])
def test_nonsense_is_no_interval(value: str | float) -> None:
    with pytest.raises(ConfigError, match="gc-interval") as raised:
        PumpConfig(gc_interval=value)
    assert "at most 30 days" in raised.value.hint


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("10 gib", 10 << 30),
        ("10GiB", 10 << 30),
        ("2 gb", 2_000_000_000),
        ("1.5 KiB", 1536),
        ("500k", 500_000),
        (0, 0),
        (1 << 40, 1 << 40),
        ("7 B", 7),
    ],
)
def test_sizes_have_units(value: str | int, size: int) -> None:
    assert parse_size(value) == size


@pytest.mark.parametrize(
    "value", ["", "gib", "-1", -1, "10 gibs", "1 0 gib", "10 xb", "٣", "2000 pib", "9" * 400 + "p"]
)
def test_nonsense_is_no_size(value: str | int) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_size(value)
    assert raised.value.hint


def test_a_size_that_is_none_is_named_by_its_key() -> None:
    with pytest.raises(ConfigError, match=r"storage\.stop-write-at-available-space '10 xib'"):
        PumpConfig(storage=StorageConfig(stop_write_at_available_space="10 xib"))


@pytest.mark.parametrize("addr", ["here", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536"])
def test_an_address_that_is_none_is_refused_before_anything_starts(addr: str) -> None:
    with pytest.raises(ConfigError, match="grpc-addr") as raised:
        PumpConfig(grpc_addr=addr)
    assert raised.value.hint


@pytest.mark.parametrize("addr", [":8250", "127.0.0.1:0", "[::1]:8250", "pump-1:8250"])
def test_an_address_is_host_and_port(addr: str) -> None:
    assert grpc_addresses(PumpConfig(grpc_addr=addr)) == [addr]


def test_the_defaults_are_the_originals() -> None:
    config = load(PumpConfig, "pump", [], {})
    assert (config.heartbeat_interval, config.gen_binlog_interval) == (2.0, 3.0)
    storage = config.storage
    assert (storage.sync_log, storage.slow_write_threshold) == (True, 1.0)
    assert storage.kept_free(1 << 40) == 10 << 30
    assert storage.kept_free(20 << 30) == 2 << 30


def test_a_file_of_the_original_is_read_where_it_means_the_same(tmp_path: Path) -> None:
    file = tmp_path / "pump.toml"
    file.write_text(
        'advertise-addr = "pump-1:8250"\ndata-dir = "data.pump"\nheartbeat-interval = 3\n'
        'gen-binlog-interval = 5\nsocket = "unix:///run/pump.sock"\n'
        "[storage]\nsync-log = false\nslow_write_threshold = 2.5\n"
        'stop-write-at-available-space = "20 gib"\n'
    )
    config = load(PumpConfig, "pump", ["--config", str(file)], {})
    assert (config.heartbeat_interval, config.gen_binlog_interval) == (3.0, 5.0)
    assert not config.storage.sync_log
    assert config.storage.slow_write_threshold == 2.5
    assert config.storage.kept_free(1 << 40) == 20 << 30
    assert grpc_addresses(config) == ["unix:/run/pump.sock"]
    again = load(PumpConfig, "pump", ["--storage-stop-write-at-available-space", "1048576"], {})
    assert again.storage.kept_free(1 << 40) == 1 << 20


@pytest.mark.parametrize("key", sorted(PumpConfig.unused))
def test_a_key_without_a_meaning_here_says_so_and_what_to_do(tmp_path: Path, key: str) -> None:
    file = tmp_path / "pump.toml"
    file.write_text(f"{key} = 1\n")
    named = key.partition(".")[0]
    with pytest.raises(ConfigError, match=f"{named}.*without a meaning here") as raised:
        load(PumpConfig, "pump", ["--config", str(file)], {})
    assert raised.value.hint == PumpConfig.unused[key]
    flat = key.replace(".", "-")
    with pytest.raises(ConfigError, match="without a meaning here"):
        load(PumpConfig, "pump", [f"--{flat}=1"], {})
    with pytest.raises(ConfigError, match="without a meaning here"):
        load(PumpConfig, "pump", [], {f"TIDELOG_PUMP_{flat.upper().replace('-', '_')}": "1"})


def test_values_out_of_range_are_named(tmp_path: Path) -> None:
    for flag, allowed in (
        ("--gen-binlog-interval=0", "0.001 to 86400 seconds"),
        ("--heartbeat-interval=-1", "0.001 to 86400 seconds"),
        ("--storage-slow-write-threshold=0", "0.001 to 86400 seconds"),
        ("--segment-bytes=0", "1 to 1099511627776 bytes"),
        ("--segment-bytes=-5", "1 to 1099511627776 bytes"),
        ("--index-buffer-bytes=0", "1 to 1099511627776 bytes"),
        ("--txn-timeout-s=-1", "1 to 2592000 seconds"),
        ("--txn-timeout-s=nan", "1 to 2592000 seconds"),
        ("--txn-timeout-s=inf", "1 to 2592000 seconds"),
        ("--resolve-after-s=-1", "0 to 86400 seconds"),
        ("--clock-skew-s=-1", "0 to 86400 seconds"),
        ("--cluster-id=-1", "0 to 18446744073709551615"),
    ):
        key, _, value = flag.partition("=")
        with pytest.raises(ConfigError, match=f"^{key} is {value}.*") as raised:
            load(PumpConfig, "pump", [flag], {})
        assert raised.value.hint == f"{key} takes {allowed}"
    with pytest.raises(ConfigError, match="no size"):
        load(PumpConfig, "pump", ["--storage-stop-write-at-available-space", "much"], {})


def test_the_readme_has_every_key_and_no_other() -> None:
    readme = (Path(__file__).parents[3] / "services/pump/README.md").read_text()
    table = readme.partition("## Keys")[2].partition("## HTTP")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = [key for row in rows for key in re.findall(r"`([a-z.-]+)`", row)]
    own = [field.encode_name for field in msgspec.structs.fields(PumpConfig)]
    storage = [f"storage.{f.encode_name}" for f in msgspec.structs.fields(StorageConfig)]
    tls = [f"security.{f.encode_name}" for f in msgspec.structs.fields(TlsFiles)]
    tidb = ["upstream.pd-urls", *(f"upstream.{key}" for key in tls)]
    plain = [key for key in own if key not in {"storage", "security", "upstream"}]
    assert sorted(named) == sorted([*plain, *storage, *tls, *tidb])


def test_help_names_the_choices() -> None:
    with pytest.raises(HelpRequested, match=r"--oracle +embedded\|pd\|follow \['embedded'\]"):
        load(PumpConfig, "pump", ["--help"], {})
