"""`tidelog status --watch` in a terminal of tmux, as a person sees it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.processes import until
from tests.topology import TIDELOG, Running

Tmux = Callable[..., str]
ALL = ("feed", "resolved", "published", "applied", "node", "applier", "drainer", "pump-1", "pump-2")
"""What the lines begin with."""


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    """A server of our own."""
    program = shutil.which("tmux")
    assert program, "tmux is missing: `make browser` installs it, or says how"

    # Not what the C library has besides: readline puts the size of pytest's own terminal there.
    environ = dict(os.environ)

    def call(*arguments: str) -> str:
        argv = [program, "-S", str(tmp_path / "tmux"), *arguments]
        done = subprocess.run(argv, check=True, capture_output=True, text=True, env=environ)
        return done.stdout

    yield call
    call("kill-server")


def test_all_of_it_is_on_the_screen_whatever_its_size(running: Running, tmux: Tmux) -> None:
    argv = [*TIDELOG, "status", "--watch", "--dir", str(running.directory)]
    tmux("new-session", "-d", "-s", "s", "-x", "80", "-y", "24", f"{shlex.join(argv)}; cat")
    shown: list[str] = []

    def whole() -> bool:
        shown[:] = tmux("capture-pane", "-p", "-t", "s").rstrip().splitlines()
        return tuple(line.split()[0] for line in shown if line.strip()) == ALL

    for width, height in (("80", "24"), ("120", "40"), ("60", "20")):
        tmux("resize-window", "-t", "s", "-x", width, "-y", height)
        until(whole, lambda: "the whole of it:\n" + "\n".join(shown))
        before = list(shown)
        until(partial(lambda old: whole() and shown != old, before), "it to be drawn again")
    tmux("send-keys", "-t", "s", "C-c")
    until(lambda: tmux("display", "-p", "-t", "s", "#{alternate_on}").strip() == "0", "its end")
    until(whole, lambda: "what was shown last:\n" + "\n".join(shown))
