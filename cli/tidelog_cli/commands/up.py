"""`tidelog up`: its options."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidelog_cli import up
from tidelog_cli.commands import upstream_options
from tidelog_cli.state_file import TopologyState
from tidelog_cli.terminal import Json, console, emit, errors, run, say, until_signal
from tidelog_cli.topology import HERE


def up_command(
    directory: Annotated[Path, typer.Option("--dir", help="Where everything is kept.")],
    downstream: Annotated[
        str,
        typer.Option(
            help="sqlite:////PATH, mysql://USER@HOST:PORT/?password_file=PATH, file:///DIRECTORY"
            " or blackhole:"
        ),
    ],
    pumps: Annotated[int, typer.Option(min=1, max=64)] = 2,
    pump_host: Annotated[
        str,
        typer.Option(
            help="This machine's name or address for a TiDB elsewhere: Pumps listen there."
        ),
    ] = HERE,
    ddl_history: Annotated[
        str, typer.Option(help="embedded, file:PATH, http(s)://HOST:PORT or pd")
    ] = "embedded",
    oracle: Annotated[str, typer.Option(help="embedded, pd or follow")] = "embedded",
    pd_urls: Annotated[
        str,
        typer.Option(
            help="The upstream's PD servers, http://HOST:2379, commas between; https with the CA."
        ),
    ] = "",
    upstream_ca: upstream_options.Ca = "",
    upstream_cert: upstream_options.Cert = "",
    upstream_key: upstream_options.Key = "",
    initial_commit_ts: Annotated[
        int, typer.Option(min=-1, help="0 = all that the Pumps hold, -1 = now")
    ] = 0,
    start_ts: Annotated[
        int, typer.Option(min=0, help="Where a feed goes on whose position nothing tells.")
    ] = 0,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="It may go on where it was last pulled.")
    ] = False,
    cluster_id: Annotated[
        int,
        typer.Option(
            min=0,
            help="The upstream's cluster id, from the first start on: Pumps take binlogs that"
            " carry just this one. 0 = as PD says, if --pd-urls name it.",
        ),
    ] = 0,
    feed: Annotated[str, typer.Option(help="Name of the feed.")] = "main",
    keys: Annotated[
        Path | None,
        typer.Option(
            help="NATS lets in only who has a key of there, as `tidelog keys` makes them."
        ),
    ] = None,
    certs: Annotated[
        Path | None,
        typer.Option(help="TLS with the certificates of there, as `tidelog certs` makes them."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a whole topology in the foreground until SIGTERM or Ctrl-C.

    Ready (with --json: one line) means that the Pumps take writes. A feed that stopped or a
    downstream that can't be reached holds it up for 10 s at most: what is written is kept for
    them. Standard error says for whom a start waits, and each error of a node that comes or goes.
    """

    async def work() -> int:
        options = up.options(
            directory,
            downstream,
            pumps=pumps,
            pump_host=pump_host,
            ddl_history=ddl_history,
            oracle=oracle,
            pd_urls=pd_urls,
            upstream_tls=upstream_options.tls(upstream_ca, upstream_cert, upstream_key),
            initial_commit_ts=initial_commit_ts,
            start_ts=start_ts,
            accept_loss=accept_loss,
            cluster_id=cluster_id,
            feed=feed,
            keys=None if keys is None else keys.absolute(),
            certs=None if certs is None else certs.absolute(),
        )
        stop = asyncio.Event()
        until_signal(stop)
        with errors.status(f"starting in {options.directory}") as shown:

            def ready(state: TopologyState) -> None:
                shown.stop()
                if as_json:
                    emit(up.ready_line(state))
                else:
                    up.greet(console, options.directory, state)

            await up.run(options, stop, ready, lambda line: say(Text(line, "yellow")))
        if not as_json:
            console.print(
                f"stopped; {options.directory} keeps all of it", highlight=False, soft_wrap=True
            )
        return 0

    run(work())
