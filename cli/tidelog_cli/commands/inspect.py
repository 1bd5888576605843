"""`tidelog inspect`: its options."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidelog.errors import EXIT_RESTART
from tidelog_cli import inspect, inspect_relay, inspect_report
from tidelog_cli.terminal import Dir, Json, console, emit, run


def inspect_command(
    path: Annotated[
        Path | None,
        typer.Argument(help="A segment, pb_binlog or relay file, or a directory of them."),
    ] = None,
    directory: Dir = None,
    ts: Annotated[int, typer.Option(help="Show the records of this timestamp.")] = 0,
    as_json: Json = False,
) -> None:
    """Read files of a Pump or of a file:// downstream, while they are written too: what is in
    them, and the first bad record. Of an Applier's relay: each record."""

    async def work() -> int:
        place = path or directory or Path("tidelog-data")
        relay = inspect_relay.relay_files(place)
        if relay:
            found = inspect_relay.inspect(relay, ts)
            return _told(found, inspect_relay.lines(found), as_json)
        segments = inspect.inspect(place, ts)
        return _told(segments, inspect_report.lines(segments), as_json)

    run(work())


def _told(
    found: inspect_report.Inspection | inspect_relay.RelayInspection,
    lines: Iterator[Text],
    as_json: bool,
) -> int:
    """Returns the exit code."""
    if as_json:
        emit(found)
    else:
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True)
    return EXIT_RESTART if found.bad else 0
