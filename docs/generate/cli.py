"""docs/reference/cli.md: every command and option of `tidelog`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main
from typer.core import TyperArgument, TyperGroup, TyperOption

from docs.generate.markdown import WRITTEN, code, table
from tidelog_cli.app import app

INTRODUCTION = """# Commands

`tidelog COMMAND --help` shows the same. What the JSON of `--json` has:
[operating](../operating.md#json-of-the-other-commands). [Exit codes](exit-codes.md).
"""


def page() -> str:
    top = typer.main.get_command(app)
    return "\n".join([WRITTEN, INTRODUCTION, *_commands("tidelog", top)])


def _commands(name: str, command: Any) -> Iterator[str]:
    """`command` if it does something by itself, and those in it."""
    inner = command.commands if isinstance(command, TyperGroup) else {}
    if not inner or command.invoke_without_command:
        yield from _command(name, command)
    for word, each in inner.items():
        yield from _commands(f"{name} {word}", each)


def _command(name: str, command: Any) -> Iterator[str]:
    shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    arguments = [p for p in shown if isinstance(p, TyperArgument)]
    words = [_word(p) for p in arguments]
    yield f"## {name}\n"
    yield f"`{' '.join([name, *words])}`\n"
    yield " ".join((command.help or "").split()) + "\n"
    rows = [_row(p) for p in shown]
    if rows:
        yield table(("option", "default", "what"), rows)


def _word(argument: TyperArgument) -> str:
    """As usage lines write it: `[NAME]...`."""
    word = str(argument.metavar or argument.name).upper()
    return (word if argument.required else f"[{word}]") + "..." * (argument.nargs == -1)


def _row(parameter: TyperArgument | TyperOption) -> tuple[str, str, str]:
    if isinstance(parameter, TyperArgument):
        names = code(_word(parameter))
    else:
        names = ", ".join(map(code, (*parameter.opts, *parameter.secondary_opts)))
    variable = parameter.envvar
    default = "" if callable(parameter.default) else parameter.default
    if parameter.required:
        told = "required"
    elif default in (None, "", False, (), []):
        told = ""
    else:
        told = code(str(getattr(default, "value", default)))
    kind = f" ({_kind(parameter)})" if _kind(parameter) else ""
    beside = f" Or {code(str(variable))}." if variable else ""
    return names, told, " ".join((parameter.help or "").split()) + kind + beside


def _kind(parameter: Any) -> str:
    """Which values it takes, where its help does not say it."""
    kind = parameter.type
    if choices := getattr(kind, "choices", ()):
        return ", ".join(map(str, choices))
    least, most = getattr(kind, "min", None), getattr(kind, "max", None)
    if least is None:
        return ""
    return f"{least} or more" if most is None else f"{least} to {most}"
