"""`tidelog doctor`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.errors import EXIT_FAILED, EXIT_OK, Unavailable
from tidelog.real.clock import RealClock
from tidelog.upstream.config import UpstreamConfig
from tidelog_cli import state_file
from tidelog_cli.commands import upstream_options
from tidelog_cli.doctor import examining, table
from tidelog_cli.doctor.examining import Asked
from tidelog_cli.doctor.finding import found
from tidelog_cli.terminal import Cluster, Dir, Feed, Json, Nats, console, emit, run


def doctor_command(
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    feed: Feed = "",
    nats_monitor: Annotated[
        str, typer.Option(help="URL of the NATS server's monitoring; else port 8222 beside it.")
    ] = "",
    config: Annotated[
        list[str] | None,
        typer.Option(help="FILE of a service, or SERVICE=FILE; again for more."),
    ] = None,
    downstream: Annotated[
        str,
        typer.Option(
            envvar="TIDELOG_DOCTOR_DOWNSTREAM", help="URL of the Applier's; read only, as it."
        ),
    ] = "",
    source: Annotated[
        str,
        typer.Option(envvar="TIDELOG_DOCTOR_SOURCE", help="mysql://USER@HOST:4000/ of the TiDB."),
    ] = "",
    upstream: Annotated[
        str,
        typer.Option(help="http://PD:2379 of the TiDB cluster, commas between; https with the CA."),
    ] = "",
    upstream_ca: upstream_options.Ca = "",
    upstream_cert: upstream_options.Cert = "",
    upstream_key: upstream_options.Key = "",
    as_json: Json = False,
) -> None:
    """Look at everything that can be seen from here, and say what to do: 0 well, 1 not."""

    async def work() -> int:
        tls = upstream_options.tls(upstream_ca, upstream_cert, upstream_key)
        alone = bool(config or downstream or source or upstream)
        asked = Asked(
            _topology(directory, nats, cluster, feed, optional=alone),
            None if nats else directory or state_file.HERE,
            nats_monitor,
            config or (),
            downstream,
            source,
            UpstreamConfig(pd_urls=upstream, security=tls),
        )
        result = found(await examining.look(asked, RealClock()))
        if as_json:
            emit(result)
        else:
            console.print(table.render(result))
        return EXIT_OK if result.well else EXIT_FAILED

    run(work())


def _topology(
    directory: Path | None, nats: str, cluster: str, feed: str, *, optional: bool
) -> state_file.TopologyState | None:
    """None: there is none here, and none was named."""
    try:
        return state_file.find(directory, nats, cluster, feed)
    except Unavailable:
        if directory is None and optional:
            return None
        raise
