"""Downstream URLs."""

from __future__ import annotations

import pytest

from tidelog.downstream import DownstreamOptions
from tidelog.errors import ConfigError
from tidelog_applier.downstreams import open_downstream
from tidelog_applier.downstreams.target import Target


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
    ],
)
def test_wrong_urls_are_config_errors_without_the_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        open_downstream(DownstreamOptions(url=url))
    assert caught.value.hint
    assert "secret" not in str(caught.value)
