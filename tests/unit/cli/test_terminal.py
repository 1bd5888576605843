"""How every command ends: one line of what went wrong, one of what to do, and an exit code."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
import typer

from tidelog.errors import EXIT_UNAVAILABLE, TidelogError, Unavailable
from tidelog_cli import terminal


async def together(error: Exception) -> int:
    async def fails() -> None:
        raise error

    async with asyncio.TaskGroup() as group:
        group.create_task(fails())
        group.create_task(asyncio.Event().wait())
    return 0


async def alone(error: TidelogError) -> int:
    raise error


@pytest.mark.parametrize("work", [alone, together])
def test_an_error_is_told_alike_wherever_it_was_raised(
    work: object, capfd: pytest.CaptureFixture[str]
) -> None:
    assert callable(work)
    with pytest.raises(typer.Exit) as ended:
        terminal.run(work(Unavailable("nobody\nis there", hint="look for somebody")))
    assert ended.value.exit_code == EXIT_UNAVAILABLE
    assert capfd.readouterr().err == "Unavailable: nobody is there\n  try: look for somebody\n"


def test_what_is_no_error_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        terminal.run(together(ZeroDivisionError()))


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_ends_with_its_own_code(code: int) -> None:
    async def works() -> int:
        return code

    with pytest.raises(typer.Exit) as ended:
        terminal.run(works())
    assert ended.value.exit_code == code


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_whatever_signal_ends_a_command_it_lets_go_of_what_it_holds(
    number: signal.Signals, code: int
) -> None:
    let_go = []

    async def holds() -> int:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            let_go.append("the Applier")
        return 0

    with pytest.raises(typer.Exit) as ended:
        terminal.run(holds())
    assert (ended.value.exit_code, let_go) == (code, ["the Applier"])


def test_a_signal_that_nohup_has_ignored_ends_nothing() -> None:
    async def works() -> int:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0.01)
        return 3

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with pytest.raises(typer.Exit) as ended:
            terminal.run(works())
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ended.value.exit_code == 3
