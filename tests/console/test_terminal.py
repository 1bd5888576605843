"""`tidelog status --watch` and `tidelog demo` in a terminal of tmux, as a person sees them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.processes import until
from tests.topology import TIDELOG, Running

Tmux = Callable[..., str]
ALL = ("feed", "resolved", "published", "applied", "node", "applier", "drainer", "pump-1", "pump-2")
"""What the lines begin with."""
WIDTH, HEIGHT = 110, 40
COUNTS = (
    r"committed \d+ +txn/s \d+ +rows \d+ +schema changes \d+ +rolled back \d+ +clients died \d+"
)
LAGS = r"published +\d{18} +[\d.]+ m?s behind +│\n│ applied +\d{18} +[\d.]+ m?s behind "
NODES = ("applier", "drainer", "pump-1", "pump-2")


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


def test_the_demo_shows_counts_lags_and_one_verdict(tmux: Tmux) -> None:
    """In a directory with a short name, as a person's is."""
    shown: list[str] = []
    lags: list[str] = []

    def has(what: str) -> bool:
        shown[:] = tmux("capture-pane", "-p", "-t", "d").rstrip().splitlines()
        screen = "\n".join(shown)
        lags.extend(found.group() for found in [re.search(LAGS, screen)] if found)
        return re.search(what, screen) is not None

    def so_far() -> str:
        return "the demo:\n" + "\n".join(shown)

    with tempfile.TemporaryDirectory(prefix="demo-") as keep:
        argv = [*TIDELOG, "demo", "--seconds", "8", "--rate", "60", "--keep", keep]
        command = f"{shlex.join(argv)}; echo it ended with $?; cat"
        tmux("new-session", "-d", "-s", "d", "-x", str(WIDTH), "-y", str(HEIGHT), command)
        until(partial(has, "committed [1-9]"), so_far)
        until(partial(has, "it ended with"), so_far, 120)
    assert lags, so_far()
    _is_whole(shown[: shown.index("")])
    below = "\n".join(shown[shown.index("") :])
    verdicts = re.findall(r"^.*(?:source|downstream) .*$", below, re.MULTILINE)
    assert len(verdicts) == 1, below
    assert re.fullmatch(r"source = downstream: \d+ rows in \d+ tables", verdicts[0])
    assert below.splitlines()[-1] == "it ended with 0"


def _is_whole(panel: list[str]) -> None:
    """Nothing of it is wrapped, or cut but for what a node says."""
    assert {len(line) for line in panel} == {WIDTH}, panel
    assert (panel[0][0], panel[0][-1], panel[-1][0], panel[-1][-1]) == ("╭", "╮", "╰", "╯")
    assert panel[0].strip("╭─╮") == " tidelog demo "
    lines = [line.removeprefix("│ ").removesuffix(" │").rstrip() for line in panel[1:-1]]
    step, counts, *positions = lines[: -len(NODES)]
    assert step == "comparing row by row"
    assert re.fullmatch(COUNTS, counts), counts
    assert [line.split()[0] for line in positions] == [*ALL[:4], "node"]
    assert not any("…" in line for line in positions)
    for line, node in zip(lines[-len(NODES) :], NODES, strict=True):
        assert re.match(rf"{node} +online +(applier|drainer|pump)( |$)", line), line
