"""What every command shares: its streams, its options, its end."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from tidelog import logs
from tidelog.actor import first_error
from tidelog.errors import BadInput, Refused, TidelogError, exit_code
from tidelog_cli.ending import Ending, heard

PIPED_WIDTH = 200
"""Of a table that goes into a file or another program, unless COLUMNS says another."""

SILENT_S = 1.5
"""Who waits longer for an answer is told whose."""

console = Console(width=None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPED_WIDTH)
errors = Console(stderr=True)
Dir = Annotated[
    Path | None,
    typer.Option(
        "--dir", help="Directory of the topology; else TIDELOG_NATS_URL's, else tidelog-data here."
    ),
]
Nats = Annotated[str, typer.Option("--nats", help="NATS URL of the topology, instead of --dir.")]
Cluster = Annotated[
    str,
    typer.Option(help="Cluster at --nats or TIDELOG_NATS_URL; else TIDELOG_CLUSTER's, or default."),
]
Feed = Annotated[str, typer.Option(help="Another feed than the topology's.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Yes = Annotated[bool, typer.Option("--yes", help="Don't ask.")]


def emit(value: Any) -> None:
    """One JSON line on standard output."""
    print(msgspec.json.encode(value).decode(), flush=True)  # noqa: T201


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run a command; an error is one line, a second says what to do next; and its exit code."""
    logs.configure("auto", "error")
    ending = Ending(lambda line: say(Text(line)))
    try:
        code = asyncio.run(ending.of(work))
    except TidelogError as error:
        fail(error)
    except BaseExceptionGroup as group:
        fail(first_error(group))
    except KeyboardInterrupt:
        raise typer.Exit(ending.code) from None
    else:
        raise typer.Exit(code)


def fail(error: BaseException) -> None:
    if not isinstance(error, TidelogError):
        raise error
    say(Text.assemble((f"{error.codes[0]}: ", "red"), " ".join(error.message.split())))
    if error.hint:
        say(Text(f"  try: {error.hint}"))
    raise typer.Exit(exit_code(error))


def say(line: Text) -> None:
    """A line on standard error, never wrapped: it may be grepped for, or hold a path to copy."""
    errors.print(line, highlight=False, soft_wrap=True)


@contextmanager
def patience(whom: str) -> Iterator[None]:
    """Around a wait for an answer: a long one is not silent."""
    line = Text(f"waiting for {whom}", "dim")
    timer = asyncio.get_running_loop().call_later(SILENT_S, say, line)
    try:
        yield
    finally:
        timer.cancel()


def until_signal(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in heard():
        loop.add_signal_handler(number, stop.set)


def confirming(*, yes: bool) -> Callable[[str], None]:
    """Asks, unless `yes`; raises if nobody agrees."""

    def confirm(question: str) -> None:
        if not yes and not sys.stdin.isatty():
            raise BadInput("nobody is there to confirm", hint="--yes")
        if not yes and not typer.confirm(question, err=True):
            raise Refused("left as it is")

    return confirm
