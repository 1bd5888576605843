"""A workload that signals end at once: by its exit code, and without what is not true."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.errors import Stuck
from tidelog.ports import Disk
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.workload import __main__ as program
from tidelog.workload import runs

CODE = 128 + signal.SIGTERM
GOES_ON = "it ends with what is under way; again: at once"
AT_ONCE = "tidelog.workload: ended at once"
UNDECIDED = f"{AT_ONCE}: nobody decides what was under way"


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    """A run takes them over, and what it set of a process that goes on stays."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def twice() -> None:
    for delay in (0.01, 0.02):
        asyncio.get_running_loop().call_later(delay, os.kill, os.getpid(), signal.SIGTERM)


async def cut_short(*_: object) -> None:
    twice()
    await asyncio.sleep(20)


class Run:
    """One run of the program, whose parts are through at once but for the one that is named."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, slow: str, *, is_begun: bool) -> None:
        world = SimpleNamespace(end=lambda: None, is_begun=is_begun)
        bus = SimpleNamespace(close=self._part(slow == "close"))
        monkeypatch.setattr(NatsBus, "connect", self._part(slow == "connect", bus))
        monkeypatch.setattr(program, "Workload", lambda *_: world)
        monkeypatch.setattr(program, "real_ports", lambda *_: SimpleNamespace(clock=None))
        monkeypatch.setattr(program, "_play", self._part(slow == "play", {}))
        monkeypatch.setattr(program, "_dump", self._part(slow == "dump"))

    @staticmethod
    def _part(is_slow: bool, value: object = None) -> Callable[..., Any]:
        async def part(*args: object, **_: object) -> object:
            if is_slow:
                await cut_short(*args)
            return value

        return part


@pytest.mark.parametrize(
    ("slow", "is_begun", "lines"),
    [
        ("play", True, [GOES_ON, UNDECIDED]),
        ("play", False, [AT_ONCE]),
        ("dump", True, [GOES_ON, AT_ONCE]),
        ("close", True, [GOES_ON, AT_ONCE]),
    ],
)
def test_whatever_is_cut_short_it_says_so_and_leaves_its_directory(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    slow: str,
    is_begun: bool,
    lines: list[str],
) -> None:
    """It ended in a traceback while the dump was written or the bus closed."""
    Run(monkeypatch, slow, is_begun=is_begun)
    assert program.run(["--state", str(tmp_path), "--dump", str(tmp_path / "dump")]) == CODE
    assert capfd.readouterr().err.splitlines() == lines
    runs.take(RealDisk(tmp_path)).release()


def test_what_is_stuck_keeps_the_directory_and_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may still write there, and whoever waited for it would wait for ever."""
    released: list[str] = []

    def taken(_: Disk) -> Any:
        return SimpleNamespace(release=lambda: released.append("it"))

    async def stuck(*_: object) -> None:
        raise Stuck("a write")

    def leave(code: int) -> None:
        raise SystemExit(code)

    Run(monkeypatch, "close", is_begun=True)  # the bus is not closed: it would hear a signal there
    monkeypatch.setattr(program, "take", taken)
    monkeypatch.setattr(program, "_play", stuck)
    monkeypatch.setattr("os._exit", leave)
    with pytest.raises(SystemExit) as left:
        program.run(["--state", str(tmp_path)])
    assert (left.value.code, released) == (os.EX_SOFTWARE, [])


def test_ctrl_c_before_the_loop_is_there_ends_it_with_nothing_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job has none
    monkeypatch.setattr(program, "_to_the_end", lambda *_: signal.raise_signal(signal.SIGINT))
    assert program.run(["--state", str(tmp_path / "state")]) == 128 + signal.SIGINT
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "state").exists()
