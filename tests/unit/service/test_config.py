"""Configuration: the three sources, their order, and errors that name the key."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer.main

from tidelog.config import (
    OF_COMMANDS,
    HelpRequested,
    Secret,
    ServiceConfig,
    keys_of,
    load,
    redacted,
    redacted_url,
)
from tidelog.config_help import field_helps
from tidelog.errors import ConfigError
from tidelog.ranges import Range, bare, range_of
from tidelog_cli.app import app


class Gc(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    keep_days: int = 7
    hard_cap: float = 0.9


class Config(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    feed: str = "main"
    sync_log: bool = True
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    tables: list[str] = msgspec.field(default_factory=list)
    password: Secret = Secret()
    gc: Gc = Gc()


def test_defaults() -> None:
    config = load(Config, "pump", [], {})
    assert (config.cluster, config.gc.keep_days, config.sync_log) == ("default", 7, True)


def test_the_order_is_file_then_environment_then_flags(tmp_path: Path) -> None:
    file = tmp_path / "pump.toml"
    file.write_text('feed = "file"\ncluster = "file"\ndata-dir = "file"\n[gc]\nkeep-days = 3\n')
    environ = {
        "TIDELOG_PUMP_CLUSTER": "own",
        "TIDELOG_CLUSTER": "general",
        "TIDELOG_DATA_DIR": "general",
        "TIDELOG_DRAINER_NONSENSE": "not ours",
        "TIDELOG_FAILPOINTS": "x=kill",
        "TIDELOG_FEED": "",
    }
    flags = ["--config", str(file), "--data-dir=flag", "--gc-hard-cap", "0.5"]
    config = load(Config, "pump", flags, environ)
    assert (config.feed, config.cluster, config.data_dir) == ("file", "own", "flag")
    assert config.gc == Gc(keep_days=3, hard_cap=0.5)


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    file = tmp_path / "pump.toml"
    file.write_text('labels = {zone = "a"}\ntables = ["x.y"]\nsync-log = false\n')
    config = load(Config, "pump", [], {"TIDELOG_CONFIG": str(file)})
    assert (config.labels, config.tables, config.sync_log) == ({"zone": "a"}, ["x.y"], False)


def test_text_becomes_what_the_type_wants() -> None:
    argv = ["--tables", "a.b, c.d", "--labels", "zone=a,rack=7", "--sync-log", "false"]
    config = load(Config, "pump", argv, {"TIDELOG_PUMP_CLUSTER_ID": "12"})
    assert config.tables == ["a.b", "c.d"]
    assert config.labels == {"zone": "a", "rack": "7"}
    assert (config.sync_log, config.cluster_id) == (False, 12)


def test_an_unknown_key_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "pump.toml"
    file.write_text("[gc]\nkeep-day = 3\n")
    with pytest.raises(ConfigError, match=r"gc.keep-day in .*nearest known one is gc\.keep-days"):
        load(Config, "pump", ["--config", str(file)], {})
    with pytest.raises(ConfigError, match=r"--feeed.*nearest known one is --feed"):
        load(Config, "pump", ["--feeed", "x"], {})
    with pytest.raises(ConfigError, match="nearest known one is TIDELOG_PUMP_DATA_DIR"):
        load(Config, "pump", [], {"TIDELOG_PUMP_DATADIR": "x"})
    with pytest.raises(ConfigError, match="nearest known one is TIDELOG_CLUSTER"):
        load(Config, "pump", [], {"TIDELOG_CLUSTERS": "x"})


def test_what_only_commands_read_is_left_alone_by_every_service() -> None:
    """Each variable of an option, but those that services have as well: who exported it for
    `tidelog verify` may start a Pump. One that nobody reads is still an error."""
    general = {variable.upper().replace("-", "_") for variable in keys_of(ServiceConfig)}
    read = {name.removeprefix("TIDELOG_") for name in _variables(typer.main.get_command(app))}
    assert {name.upper() for name in OF_COMMANDS} == read - general
    environ = {f"TIDELOG_{name.upper()}": "x" for name in OF_COMMANDS}
    for section in ("registry", "pump", "drainer", "applier", "backfill"):
        module = importlib.import_module(f"tidelog_{section}.config")
        own = {
            f"{before}{name.replace('-', '_')}"
            for name in keys_of(getattr(module, f"{section.capitalize()}Config"))
            for before in ("", f"{section}_")
        }
        assert not own & set(OF_COMMANDS), "a key of that name would be passed over"
        assert load(Config, section, [], environ) == load(Config, section, [], {})
    for typo in ("TIDELOG_VERIFY_SOURCES", "TIDELOG_DOCTOR", "TIDELOG_SSL_CAA", "TIDELOG_PUMP_GCC"):
        with pytest.raises(ConfigError, match=f"unknown key {typo} as a variable"):
            load(Config, "pump", [], environ | {typo: "x"})


def _variables(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from [parameter.envvar] if isinstance(parameter.envvar, str) else []
    for each in getattr(command, "commands", {}).values():
        yield from _variables(each)


def test_a_wrong_type_names_key_value_and_expectation(tmp_path: Path) -> None:
    file = tmp_path / "pump.toml"
    file.write_text("feed = 7\n")
    with pytest.raises(ConfigError, match=r"feed in .* is 7, but str is expected"):
        load(Config, "pump", ["--config", str(file)], {})
    file.write_text('cluster-id = "7"\n')
    with pytest.raises(ConfigError, match=r"cluster-id in .* is '7', but int is expected"):
        load(Config, "pump", ["--config", str(file)], {})
    with pytest.raises(ConfigError, match="--gc-keep-days is 'many', but int is expected"):
        load(Config, "pump", ["--gc-keep-days", "many"], {})
    with pytest.raises(ConfigError, match="--feed needs a value"):
        load(Config, "pump", ["--feed"], {})


def test_a_file_that_is_no_toml_or_not_there(tmp_path: Path) -> None:
    file = tmp_path / "pump.toml"
    file.write_text("feed = \n")
    for path in (file, tmp_path / "missing.toml"):
        with pytest.raises(ConfigError, match="can't be read"):
            load(Config, "pump", ["--config", str(path)], {})


def test_a_secret_is_never_shown(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("hunter2\n")
    argv = ["--password-file", str(file), "--nats-url", "nats://me:hunter2@127.0.0.1:4222"]
    config = load(Config, "applier", argv, {})
    assert config.password.reveal() == "hunter2"
    assert "hunter2" not in repr(config.password) + repr(redacted(config))
    assert redacted(config)["nats-url"] == "nats://me:***@127.0.0.1:4222"
    with pytest.raises(ConfigError, match="can't be read"):
        load(Config, "applier", ["--password-file", str(tmp_path / "none")], {})


def test_help_lists_the_keys() -> None:
    with pytest.raises(HelpRequested, match=r"--gc-keep-days +int \[7\]"):
        load(Config, "pump", ["--help"], {})


@pytest.mark.parametrize("section", ["registry", "pump", "drainer", "applier"])
def test_every_number_of_every_service_has_a_range(section: str) -> None:
    """And it holds however the configuration is made: by a file, a flag, or in code."""
    module = importlib.import_module(f"tidelog_{section}.config")
    cls = getattr(module, f"{section.capitalize()}Config")
    numbers = 0
    for field in msgspec.structs.fields(cls):
        if bare(field.type) not in (int, float):
            continue
        numbers += 1
        allowed = range_of(field.type)
        assert allowed is not None, field.name
        assert allowed.takes(field.default), field.name
        for wrong in (allowed.low - 1, allowed.high * 2 + 1):
            said = bare(field.type)(wrong)
            with pytest.raises(ConfigError, match=f"{field.encode_name} is {said}") as raised:
                load(cls, section, [f"--{field.encode_name}={said}"], {})
            assert str(allowed) in raised.value.hint
            with pytest.raises(ConfigError, match=field.encode_name):
                msgspec.structs.replace(cls(), **{field.name: said})
    assert numbers


@pytest.mark.parametrize("name", ["", "a b", "a.b", "*", ">", "a\n"])
def test_a_cluster_s_name_stands_in_subjects(name: str) -> None:
    with pytest.raises(ConfigError, match="is no name"):
        Config(cluster=name)


def test_not_a_number_is_in_no_range() -> None:
    assert not Range(0, 1).takes(float("nan"))
    assert str(Range(0.5, 2, "seconds")) == "0.5 to 2 seconds"


def test_help_says_the_range() -> None:
    with pytest.raises(HelpRequested, match=r"--cluster-id +int, 0 to 18446744073709551615 \[0\]"):
        load(Config, "pump", ["--help"], {})


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("mysql://me:hunter2@h:1/?tls=on", "mysql://me:***@h:1/?tls=on"),
        ("mysql://me:hun/ter2@h:1/", "mysql://me:***@h:1/"),
        ("mysql://me:hun@ter2@h:1/", "mysql://me:***@h:1/"),
        ("mysql://me:hunter,2@h:1/", "mysql://me:***@h:1/"),
        ("mysql://me:hunter#2?@h:1/", "mysql://me:***@h:1/"),
        ("nats://hunter2@h1,nats://a:hunter2@h2", "nats://***@h1,nats://a:***@h2"),
        ("mysql://me@h/?password=hunter2&tls-ca=/a", "mysql://***@h/?password=***&tls-ca=/a"),
        ("mysql://h/?password_file=/run/a", "mysql://h/?password_file=/run/a"),
        ("sqlite:////data/a@b.db", "sqlite:////data/a@b.db"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert redacted_url(url) == shown


def test_text_that_begins_like_json_and_is_none_is_no_list() -> None:
    with pytest.raises(ConfigError, match="tables"):
        load(Config, "pump", ["--tables", "[a,b"], {})
    assert load(Config, "pump", ["--tables", '["a,b"]'], {}).tables == ["a,b"]


def test_a_section_whose_source_is_gone_has_no_helps() -> None:
    made = msgspec.defstruct("Made", [("feed", str, "main")], kw_only=True)
    assert field_helps(made) == {}
