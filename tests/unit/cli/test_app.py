"""What the program says without a topology."""

from __future__ import annotations

from importlib import metadata

from typer.testing import CliRunner

from tidelog_cli.app import app


def test_it_says_its_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"tidelog {metadata.version('tidelog')}\n")


def test_without_a_command_it_says_what_there_is() -> None:
    done = CliRunner().invoke(app, [])
    assert all(name in done.output for name in ("up", "status", "doctor", "demo"))
