"""What bash makes of a command line, put together again."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from tests.servers import free_port
from tidelog_cli import state_file
from tidelog_cli.completion import last_piece, node_names, rejoin

PIECES = (
    # As bash breaks them; the number of the word that is completed.
    (("tidelog", "pause", "10.0.0.1", ":", "82"), 4, ("tidelog", "pause", "10.0.0.1:82"), 2),
    (("tidelog", "pause", "10.0.0.1", ":"), 3, ("tidelog", "pause", "10.0.0.1:"), 2),
    (("tidelog", "pause", "--dir", "=", "x", "p"), 5, ("tidelog", "pause", "--dir=x", "p"), 3),
    (
        ("tidelog", "pause", "--nats", "nats", ":", "//h", ":", "4222", ""),
        8,
        ("tidelog", "pause", "--nats", "nats://h:4222", ""),
        4,
    ),
    (("tidelog", "pa", "--dir", "x"), 1, ("tidelog", "pa", "--dir", "x"), 1),
)


@pytest.mark.parametrize(("pieces", "at", "words", "now"), PIECES)
def test_words_that_bash_broke_are_put_together(
    pieces: tuple[str, ...], at: int, words: tuple[str, ...], now: int
) -> None:
    environ = {
        "_TIDELOG_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(pieces),
        "COMP_CWORD": str(at),
    }
    rejoin(environ)
    assert environ["COMP_WORDS"].split("\n") == list(words)
    assert environ["COMP_CWORD"] == str(now)


def test_nobody_else_is_meddled_with() -> None:
    for environ in ({}, {"_TIDELOG_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "a : b"}):
        before = dict(environ)
        rejoin(environ)
        assert environ == before


def test_bash_gets_what_follows_the_last_break() -> None:
    assert last_piece("10.0.0.1:8250", "10.0.0.1:82") == "8250"
    assert last_piece("10.0.0.1:8250", "10.0.0.1:") == "8250"
    assert last_piece("10.0.0.1:8250", "10.") == "10.0.0.1:8250"


@pytest.mark.parametrize("known", ["", "[", "nobody answers"])
def test_a_half_typed_command_is_told_of_no_trouble(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], known: str
) -> None:
    if known == "[":
        (tmp_path / state_file.NAME).write_text(known)
    elif known:
        nats = f"nats://127.0.0.1:{free_port()}"
        state_file.write(tmp_path, state_file.TopologyState(nats, "c", "main"))
    typed = cast(typer.Context, SimpleNamespace(params={"directory": tmp_path}))
    assert node_names(typed, "p") == []
    assert capfd.readouterr() == ("", "")
