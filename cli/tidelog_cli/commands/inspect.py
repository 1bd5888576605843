"""`tidelog inspect`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.errors import EXIT_RESTART
from tidelog_cli import inspect
from tidelog_cli.terminal import Dir, Json, console, emit, run


def inspect_command(
    path: Annotated[
        Path | None, typer.Argument(help="A segment file, or a Pump's data directory.")
    ] = None,
    directory: Dir = None,
    ts: Annotated[int, typer.Option(help="Show the records of this timestamp.")] = 0,
    as_json: Json = False,
) -> None:
    """Read segment files, of a Pump that runs too: what is in them, and the first bad record."""

    async def work() -> int:
        found = inspect.inspect(path or directory or Path("tidelog-data"), ts)
        if as_json:
            emit(found)
        else:
            for line in inspect.lines(found):
                console.print(line, highlight=False, soft_wrap=True)
        return EXIT_RESTART if found.bad else 0

    run(work())
