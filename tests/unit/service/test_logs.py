"""Logs: one JSON object a line, the libraries' lines too, and no local variables in tracebacks."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from tidelog import logs
from tidelog.errors import ConfigError


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    handlers, level = logging.getLogger().handlers, logging.getLogger().level
    yield
    structlog.reset_defaults()
    structlog.configure()
    logging.getLogger().handlers, logging.getLogger().level = handlers, level


def test_json_lines_carry_the_fields() -> None:
    out = io.StringIO()
    logs.configure("auto", "info", stream=out, service="pump", node="p1", feed="")
    log = structlog.get_logger()
    log.debug("not shown")
    log.info("synced", commit_ts=7)
    logging.getLogger("nats").warning("from a %s", "library")
    ours, theirs = (json.loads(line) for line in out.getvalue().splitlines())
    assert (ours["event"], ours["service"], ours["node"], ours["commit_ts"]) == (
        "synced",
        "pump",
        "p1",
        7,
    )
    assert "feed" not in ours
    assert (theirs["event"], theirs["level"]) == ("from a library", "warning")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_a_traceback_shows_no_variables(log_format: str) -> None:
    out = io.StringIO()
    logs.configure(log_format, "info", stream=out)
    secret = "hunter2"
    try:
        int(secret[:0])
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "ValueError" in out.getvalue()
    assert "hunter2" not in out.getvalue()


def test_unknown_formats_and_levels_are_errors() -> None:
    with pytest.raises(ConfigError, match="log-format"):
        logs.configure("xml", "info")
    with pytest.raises(ConfigError, match="log-level"):
        logs.configure("json", "loud")


def test_an_application_s_output_is_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    structlog.reset_defaults()
    log = structlog.get_logger()
    logs.quiet()
    log.debug("connecting")
    log.warning("waits")
    out, err = capsys.readouterr()
    assert out == ""
    assert "connecting" not in err
    assert "waits" in err
    structlog.reset_defaults()
    structlog.configure()
    logs.quiet()
    log.info("as the application says")
    assert "as the application says" in capsys.readouterr().out
