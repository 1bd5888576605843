"""`tidelog keys`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from tidelog_cli import keys
from tidelog_cli.terminal import Json, console, emit, run, say

Names = list[str] | None


def keys_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where they are kept.")],
    cluster: Annotated[str, typer.Option(help="Cluster name.")] = "default",
    add: Annotated[
        Names, typer.Option(help="One more of an identity, as subscriber-billing; again for more.")
    ] = None,
    rotate: Annotated[
        Names, typer.Option(help="An identity that gets another key; again for more.")
    ] = None,
    remove: Annotated[
        Names, typer.Option(help="One that was added, and is taken back; again for more.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make the keys of all identities, and what the NATS server has to know of them.

    What is there stays. Each DIR/IDENTITY/nkey is a secret of who is that identity; a NATS server's
    configuration includes DIR/nats/auth.conf, and reads a newer one at SIGHUP.
    """

    async def work() -> int:
        found = await keys.make(
            directory, cluster, more=add or (), rotate=rotate or (), remove=remove or ()
        )
        if as_json:
            emit(found)
            return 0
        table = Table(box=None)
        for column in ("IDENTITY", "KEY", "SEED"):
            table.add_column(column, no_wrap=True)
        for key in found:
            table.add_row(key.name, Text(key.public), Text(key.file + (" (new)" * key.made)))
        console.print(table)
        say(Text(f"the NATS server includes {keys.auth_file(directory)}"))
        return 0

    run(work())
