"""`tidelog workload`: the arguments are those of `python -m tidelog.workload`."""

from __future__ import annotations

import typer

from tidelog.workload.__main__ import run

SETTINGS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


def workload_command(context: typer.Context) -> None:
    """Write like a database: transactions, schema changes, clients that die; --help for more."""
    raise typer.Exit(run(context.args, "tidelog workload"))
