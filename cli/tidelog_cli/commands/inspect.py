"""`tidelog inspect`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.errors import EXIT_RESTART
from tidelog_cli import inspect, inspect_report
from tidelog_cli.terminal import Dir, Json, console, emit, run


def inspect_command(
    path: Annotated[
        Path | None, typer.Argument(help="A segment or pb_binlog file, or a directory of them.")
    ] = None,
    directory: Dir = None,
    ts: Annotated[int, typer.Option(help="Show the records of this timestamp.")] = 0,
    as_json: Json = False,
) -> None:
    """Read files of a Pump or of a file:// downstream, while they are written too: what is in
    them, and the first bad record."""

    async def work() -> int:
        found = inspect.inspect(path or directory or Path("tidelog-data"), ts)
        if as_json:
            emit(found)
        else:
            for line in inspect_report.lines(found):
                console.print(line, highlight=False, soft_wrap=True)
        return EXIT_RESTART if found.bad else 0

    run(work())
