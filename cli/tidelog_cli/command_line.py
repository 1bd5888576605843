"""`tidelog` and its commands. Each stands in a module of `commands`; what it does, in one of that
name beside this one.

What a command needs is imported with its module, which for some takes longer than what others do.
So a process that was told which command it is for imports that one alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module, metadata
from types import ModuleType
from typing import Annotated

import typer

from tidelog_cli.access import take_access
from tidelog_cli.completion import ASKED, BASH

MODULES = {
    "up": "up",
    "status": "status",
    "nodes": "nodes",
    "pumps": "nodes",
    "drainers": "nodes",
    "appliers": "nodes",
    "pause": "operate",
    "resume": "operate",
    "offline": "operate",
    "watch": "watch",
    "tail": "tail",
    "subscribe": "subscribe",
    "wait": "wait",
    "verify": "verify",
    "resolve": "resolve",
    "inspect": "inspect",
    "replay": "replay",
    "backfill": "backfill",
    "doctor": "doctor",
    "demo": "demo",
    "keys": "keys",
    "certs": "certs",
    "workload": "workload",
    "ddl": "ddl",
    "feed": "feed",
    "config": "config",
    "capture": "capture",
    "jobs": "jobs",
}
"""Of each command: it has a function `NAME_command` for it, or an `app` where that is a group."""

EPILOG = (
    "Exit codes: 0 done; 1 refused, what was compared differs, or doctor found what is "
    "wrong; 2 an unknown option; 64 input that can't be used, or a directory in use; 69 no "
    "topology answers, or the time is over; 70 a typed stop, or damage found; 78 a wrong "
    "configuration."
)


def named(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    """The command of a command line, or of the one that bash completes behind it; "" if that may
    still be any."""
    words = argv
    if environ.get(ASKED) == BASH:
        words = environ.get("COMP_WORDS", "").split("\n")[: int(environ.get("COMP_CWORD", 0))]
    return words[1] if len(words) > 1 and words[1] in MODULES else ""


def command_line(only: str = "") -> typer.Typer:
    """With all commands, or that one."""
    app = typer.Typer(
        help="Change streams from a TiDB-style database.",
        epilog=EPILOG,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name in [only] if only else MODULES:
        _add(app, name, import_module(f"tidelog_cli.commands.{MODULES[name]}"))
    take_access(app)
    return app


def _add(app: typer.Typer, name: str, module: ModuleType) -> None:
    group = getattr(module, "app", None)
    if group is not None:
        app.add_typer(group, name=name)
        return
    settings = getattr(module, "SETTINGS", None)
    app.command(name, context_settings=settings)(getattr(module, f"{name}_command"))


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tidelog {metadata.version('tidelog')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Say it and exit.", is_eager=True, callback=_say_version),
    ] = False,
) -> None:
    """Change streams from a TiDB-style database."""
