"""What the program says without a topology."""

from __future__ import annotations

from importlib import metadata

import pytest
from typer.testing import CliRunner

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
