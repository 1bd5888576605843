"""Signals that end a command: one whose loop is blocked, and several while it lets go."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import typer

from tests.processes import until
from tidelog.errors import Refused
from tidelog_cli import ending, terminal
from tidelog_cli.ending import AGAIN, to_its_end

ASKS = """
import sys, typer
from tidelog_cli import terminal
async def asks():
    terminal.confirming(yes=False)("Take it offline?")
    return 0
try:
    terminal.run(asks())
except typer.Exit as end:
    sys.exit(end.exit_code)
"""
LONG_S = 20.0
"""Nothing here lasts so long, unless nobody ends it."""


def code_of(work: Coroutine[Any, Any, int]) -> int:
    with pytest.raises(typer.Exit) as ended:
        terminal.run(work)
    return ended.value.exit_code


def signalled(*numbers: int) -> None:
    for number in numbers:
        os.kill(os.getpid(), number)


def blocked() -> None:
    """Reads on and on."""
    end = time.monotonic() + LONG_S
    while time.monotonic() < end:
        time.sleep(0.01)  # it is what blocks the loop


@pytest.fixture
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "TURN_S", 0.05)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_one_signal_ends_who_asks_somebody(number: signal.Signals, code: int) -> None:
    """The loop waits for the answer: it heard of no cancellation."""
    pid, terminal_of = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", ASKS])
    said = b""
    while b"[y/N]: " not in said:
        said += os.read(terminal_of, 1000)
    until(lambda: sleeps(pid), "it to read the answer")  # Python hears of none on the way there
    os.kill(pid, number)
    end, ended = time.monotonic() + LONG_S, 0
    while not ended and time.monotonic() < end:
        time.sleep(0.02)
        ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    os.close(terminal_of)
    assert ended
    assert os.waitstatus_to_exitcode(status) == code


def sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("S")


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize("is_its_own", [True, False])
def test_who_never_waits_is_ended_and_lets_go(is_its_own: bool) -> None:
    """`inspect` of a large directory; `verify`, which reads two files in tasks of theirs."""
    let_go, read = [], []

    async def reads(*signals: signal.Signals) -> None:
        signalled(*signals)
        blocked()
        read.append("all of it")

    async def works() -> int:
        try:
            if is_its_own:
                await reads(signal.SIGTERM)
            else:
                async with asyncio.TaskGroup() as group:
                    group.create_task(reads(signal.SIGTERM))
                    group.create_task(reads())
        finally:
            await asyncio.sleep(0.01)
            let_go.append("the Applier")
        return 0

    assert (code_of(works()), let_go, read) == (143, ["the Applier"], [])


@pytest.mark.usefixtures("_soon")
def test_a_loop_that_is_slow_is_not_broken(capfd: pytest.CaptureFixture[str]) -> None:
    """The alarm comes between two tasks: the cancellation is under way."""

    async def works() -> int:
        asyncio.get_running_loop().call_soon(slow)
        await asyncio.Event().wait()
        return 0

    def slow() -> None:
        signalled(signal.SIGTERM)
        time.sleep(0.2)

    assert code_of(works()) == 143
    assert capfd.readouterr().err == "", "the callback was not broken off"


MORE = [(signal.SIGTERM,), (signal.SIGHUP,), (signal.SIGINT,), (signal.SIGHUP,) * 4]


@pytest.mark.parametrize("more", MORE, ids=lambda more: "-".join(n.name for n in more))
def test_what_lets_go_is_not_broken_off(
    more: tuple[signal.Signals, ...], capfd: pytest.CaptureFixture[str]
) -> None:
    let_go = []

    async def holds() -> int:
        try:
            signalled(signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            signalled(*more)
            await asyncio.sleep(0.05)
            let_go.append("the Applier")
        return 0

    assert (code_of(holds()), let_go) == (143, ["the Applier"])
    is_told = signal.SIGHUP not in more
    assert capfd.readouterr().err == (f"{AGAIN}\n" if is_told else "")


def again(act: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(0.05, act)


def test_the_third_ends_it_at_once() -> None:
    let_go = []

    async def holds() -> int:
        try:
            signalled(signal.SIGHUP)
            await asyncio.Event().wait()
        finally:
            again(lambda: signalled(signal.SIGTERM, signal.SIGTERM))
            await asyncio.sleep(LONG_S)
            let_go.append("the Applier")
        return 0

    assert (code_of(holds()), let_go) == (129, [])


def test_a_first_signal_in_its_midst_waits_for_what_lets_go() -> None:
    """It was through, and about to let go by itself."""
    let_go = []

    async def lets_go() -> None:
        signalled(signal.SIGTERM)
        await asyncio.sleep(0.05)
        let_go.append("the Applier")

    async def works() -> int:
        await to_its_end(lets_go())
        return 0

    assert (code_of(works()), let_go) == (143, ["the Applier"])


def test_what_goes_wrong_while_a_signal_waits_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    async def lets_go() -> None:
        signalled(signal.SIGTERM)
        await asyncio.sleep(0.05)
        raise Refused("it can't be resumed")

    async def works() -> int:
        await to_its_end(lets_go())
        return 0

    assert code_of(works()) == 1
    assert capfd.readouterr().err == "Refused: it can't be resumed\n"


def test_signals_are_heard_by_whom_they_were_before() -> None:
    async def works() -> int:
        return 0

    async def ends() -> int:
        signalled(signal.SIGTERM)
        await asyncio.Event().wait()
        return 0

    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    for work, code in ((works(), 0), (ends(), 143)):
        left_s, _ = signal.setitimer(signal.ITIMER_REAL, LONG_S)
        assert code_of(work) == code
        assert [signal.getsignal(number) for number in numbers] == before
        assert 0 < signal.setitimer(signal.ITIMER_REAL, left_s)[0] <= LONG_S
