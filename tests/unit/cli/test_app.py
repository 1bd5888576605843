"""What the program says without a topology."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.servers import free_port
from tidelog.errors import EXIT_UNAVAILABLE, EXIT_USAGE
from tidelog_cli import state_file
from tidelog_cli.app import app
from tidelog_cli.command_line import MODULES, command_line, named


def test_it_says_its_version() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"tidelog {metadata.version('tidelog')}\n")


def test_without_a_command_it_says_what_there_is() -> None:
    done = CliRunner().invoke(app, [])
    assert all(name in done.output for name in ("up", "status", "doctor", "demo"))


@pytest.mark.parametrize("name", MODULES)
def test_a_command_alone_is_what_it_is_among_all(name: str) -> None:
    alone, among_all = (
        CliRunner().invoke(line, [name, "--help"], catch_exceptions=False)
        for line in (command_line(name), app)
    )
    assert (alone.exit_code, alone.output) == (0, among_all.output)


@pytest.mark.parametrize(
    ("words", "completed", "only"),
    [
        (["tidelog", "status", "--json"], None, "status"),
        (["tidelog", "--version"], None, ""),
        (["tidelog", "stat"], None, ""),
        (["tidelog"], None, ""),
        (["tidelog", "pause", "p"], 2, "pause"),
        (["tidelog", "pause"], 1, ""),  # it may become another word
        (["tidelog", ""], 1, ""),
    ],
)
def test_which_command_a_process_is_for(words: list[str], completed: int | None, only: str) -> None:
    environ = {}
    if completed is not None:
        environ = {
            "_TIDELOG_COMPLETE": "complete_bash",
            "COMP_WORDS": "\n".join(words),
            "COMP_CWORD": str(completed),
        }
    assert named(words if completed is None else ["tidelog"], environ) == only


def test_a_subscription_is_printed_in_a_language() -> None:
    done = CliRunner().invoke(app, ["subscribe", "--nats", "nats://127.0.0.1:1"])
    assert done.exit_code == EXIT_USAGE
    assert "say in which language" in done.output
    assert "--print-code python, go or javascript" in done.output


def test_a_doctor_without_a_topology_examines_what_else_it_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = ["--downstream", "blackhole:"]
    alone = CliRunner().invoke(app, ["doctor", *shown])
    assert "downstream" in alone.output
    assert "no topology was started" not in alone.output
    for words in (["doctor"], ["doctor", "--dir", str(tmp_path), *shown]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == EXIT_UNAVAILABLE, done.output
        assert "no topology was started" in done.output


def test_a_topology_that_was_stopped(tmp_path: Path) -> None:
    """`tail` would read the stream that it left: here it left none."""
    nats = f"nats://127.0.0.1:{free_port()}"
    state_file.write(tmp_path, state_file.TopologyState(nats, "default", "main"))
    for command in ("status", "tail"):
        done = CliRunner().invoke(app, [command, "--dir", str(tmp_path)])
        assert done.exit_code == EXIT_UNAVAILABLE, done.output
        assert f"no topology runs at {nats}" in done.output
        assert "start it with `tidelog up`" in done.output
