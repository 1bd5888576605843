"""`tidelog demo`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog_cli import demo
from tidelog_cli.terminal import Json, console, emit, run


def demo_command(
    seconds: Annotated[float, typer.Option(help="How long the workload runs.")] = 20.0,
    rate: Annotated[int, typer.Option(help="Transactions a second.")] = 200,
    keep: Annotated[Path | None, typer.Option(help="Keep everything in this directory.")] = None,
    as_json: Json = False,
) -> None:
    """Everything embedded: a workload, a crash on the way, a verdict that compares both sides."""
    run(demo.run(seconds, rate, keep, None if as_json else console, emit if as_json else None))
