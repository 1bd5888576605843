"""`tidelog config`: its commands and options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidelog.errors import BadInput, TidelogError
from tidelog_cli.config_import.importing import Imported, import_file
from tidelog_cli.terminal import fail, say

app = typer.Typer(help="Configurations of services.", no_args_is_help=True)


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="pump.toml or drainer.toml of TiDB Binlog.")],
    out: Annotated[
        Path | None,
        typer.Option(help="A directory for the files and secrets; else to standard output."),
    ] = None,
) -> None:
    """A configuration of TiDB Binlog's Pump or Drainer as configurations for our services: each key
    says where it came from, or why it has no meaning here. A password goes to a file of its own."""
    try:
        imported = import_file(file, (out or Path()).absolute())
        if out is None:
            _show(imported)
        else:
            _write(imported, out)
    except TidelogError as error:
        fail(error)
    for notice in imported.notices:
        say(Text(notice))


def _show(imported: Imported) -> None:
    for name, text in imported.files.items():
        typer.echo(f"# {name}\n{text}" if len(imported.files) > 1 else text)
    for name in imported.secrets:
        say(Text(f"the password is not shown: write it into {name}, or use --out"))


def _write(imported: Imported, out: Path) -> None:
    """Raises BadInput; nothing that is there is replaced."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{out} can't be made: {error.strerror}", hint="--out names a directory"
        ) from error
    there = [name for name in (*imported.files, *imported.secrets) if (out / name).exists()]
    if there:
        raise BadInput(
            f"{out / there[0]} is there already", hint="name another directory, or move it away"
        )
    for name, text in imported.files.items():
        (out / name).write_text(text, encoding="utf-8")
        typer.echo(out / name)
    for name, secret in imported.secrets.items():
        (out / name).touch(mode=0o600)
        (out / name).write_text(secret.reveal() + "\n", encoding="utf-8")
        typer.echo(out / name)
