"""What a service does before it is built: its help, and what stands in its way."""

from __future__ import annotations

import pytest

from tidelog import logs
from tidelog.config import ServiceConfig
from tidelog.errors import EXIT_OK, ConfigError, exit_code
from tidelog.ports import Ports
from tidelog.service import main
from tidelog.supervisor import Supervisor


def never(_: ServiceConfig, __: Ports) -> Supervisor:
    raise AssertionError("it was built")


@pytest.fixture(autouse=True)
def nobodys_logs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' own stay as they are set up."""
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)


def ended(*arguments: str) -> object:
    with pytest.raises(SystemExit) as end:
        main("pump", ServiceConfig, never, argv=arguments, environ={})
    return end.value.code


def test_help_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("--help") == EXIT_OK
    assert "--nats-url" in capsys.readouterr().out


def test_a_key_that_is_none_ends_it_with_the_table_s_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert ended("--nats-ulr", "x") == exit_code(ConfigError(""))
    said = capsys.readouterr().err
    assert "tidelog-pump: unknown key" in said
    assert "nats-url" in said
