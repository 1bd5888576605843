"""`tidelog certs`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tidelog_cli.terminal import Json, console, emit, run


def certs_command(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Where they are kept.")],
    host: Annotated[
        list[str] | None,
        typer.Option(help="A name or address of the NATS server or a Pump; again for more."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make an authority and a certificate for each identity and the NATS server, to try out TLS.

    What is there stays, unless it ends within 30 days or lacks a --host. DIR/ca-key.pem can make
    more of them: keep it from everybody.
    """

    async def work() -> int:
        from tidelog_cli import certs  # cryptography takes a while to load

        found = await certs.make(directory, host or ())
        if as_json:
            emit(found)
            return 0
        table = Table(box=None)
        for column in ("NAME", "CERTIFICATE", "GOOD FOR", "UNTIL"):
            table.add_column(column, no_wrap=column != "GOOD FOR")
        for one in found:
            table.add_row(
                one.name, one.file + " (new)" * one.made, ", ".join(one.names), one.until[:10]
            )
        console.print(table)
        return 0

    run(work())
