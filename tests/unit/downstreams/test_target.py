"""Downstream URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.config import load, redacted
from tidelog.downstream import DownstreamOptions
from tidelog.downstreams import open_downstream
from tidelog.downstreams.target import Target, Tls
from tidelog.errors import ConfigError
from tidelog_applier.config import ApplierConfig


def test_the_forms_are_read() -> None:
    assert Target.parse("sqlite:////data/a.db").path == "/data/a.db"
    found = Target.parse("mysql://u%40x:p%2Fw@db.example:4000/?unix_socket=/run/x.sock")
    assert (found.user, found.password, found.host, found.port) == (
        "u@x",
        "p/w",
        "db.example",
        4000,
    )
    assert found.unix_socket == "/run/x.sock"


def test_a_wrong_option_or_scheme_is_told_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match="nearest known one is tls_ca"):
        Target.parse("mysql://h/?tls-cas=/x")
    with pytest.raises(ConfigError, match="mysql:// is the nearest"):
        Target.parse("mysq://h/")


def test_the_password_comes_from_one_place(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    pointed = f"mysql://u@h/?password-file={file}"
    assert Target.parse(pointed).password == "s3cret"
    assert Target.parse("mysql://u@h/", "apart").password == "apart"
    assert Target.parse("mysql://u@h/").password == ""
    for url, apart in ((pointed, "apart"), ("mysql://u:p@h/", "apart")):
        with pytest.raises(ConfigError, match="more than once"):
            Target.parse(url, apart)


def test_a_password_file_that_holds_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in ("empty", "missing"):
        with pytest.raises(ConfigError, match="password_file") as caught:
            Target.parse(f"mysql://u@h/?password_file={tmp_path / name}")
        assert caught.value.hint


def test_the_password_may_come_by_configuration(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    by_file = {"TIDELOG_APPLIER_DOWNSTREAM_PASSWORD_FILE": str(file)}
    by_variable = {"TIDELOG_APPLIER_DOWNSTREAM_PASSWORD": "s3cret"}
    for environ in (by_file, by_variable):
        config = load(ApplierConfig, "applier", [], environ)
        assert config.downstream_password.reveal() == "s3cret"
        assert "s3cret" not in repr(redacted(config)) + repr(config)


def test_tls_is_on_with_any_of_its_options() -> None:
    assert Target.parse("mysql://h/").tls is None
    assert Target.parse("mysql://h/?tls=on").tls == Tls()
    assert Target.parse("mysql://h/?tls_ca=/a.pem").tls == Tls(ca="/a.pem")
    assert Target.parse("mysql://h/?tls_ca=/a.pem&tls=off").tls is None
    found = Target.parse("mysql://h/?tls-verify=ca&tls-cert=/c&tls-key=/k").tls
    assert found == Tls("ca", "", "/c", "/k")


def test_files_and_the_blackhole() -> None:
    found = Target.parse("file:///data/a%20b?retention_days=7&segment-bytes=1048576")
    assert (found.path, found.retention_days, found.segment_bytes) == ("/data/a b", 7, 1 << 20)
    assert (found.shown, Target.parse("file:///d").segment_bytes) == ("file:///data/a b", 512 << 20)
    assert Target.parse("blackhole:").shown == "blackhole:"


def test_a_password_is_never_shown() -> None:
    found = Target.parse("mysql://u:secret@h:1/")
    assert "secret" not in repr(found) + found.shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "oracle://secret@h/",
        "sqlite://relative.db",
        "sqlite:///relative.db",
        "mysql://u:secret@h:port/",
        "mysql://u:secret@h/?nonsense=1",
        "mysql://u:secret@h/?tls=maybe",
        "mysql://u:secret@h/?tls_verify=some",
        "mysql://u:secret@h/?tls_key=/a",
        "mysql://u:secret@h/?unix_socket=/a&tls=on",
        "mysql://u:secret@h/?connect_timeout=0",
        "mysql://u:secret@h/?keep_dropped_s=a",
        "mysql://u:secret@h/?tls",
        "mysql://u:secret@h/shop",
        "mysql://u:sec/secret@h:1/",
        "file://host/dir",
        "file:dir",
        "file:///dir?retention_days=-1",
        "blackhole:?option=secret",
    ],
)
def test_wrong_urls_are_config_errors_without_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_downstream(DownstreamOptions(url=url))
    assert caught.value.hint
    assert "secret" not in str(caught.value)
