"""`tidelog capture …`: their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tidelog.security.tls import TlsFiles
from tidelog_cli import capture, state_file
from tidelog_cli.connect import connected, nodes_soon, pump_addresses
from tidelog_cli.terminal import Cluster, Dir, Json, Nats, console, emit, errors, run

app = typer.Typer(help="Recorded streams of binlogs.", no_args_is_help=True)


@app.command("replay")
def replay_command(
    file: Annotated[Path, typer.Argument(help="tidb_to_pump.bin or .bin.xz", exists=True)],
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    grpc: Annotated[
        list[str] | None, typer.Option(help="A Pump's gRPC address, instead of --dir.")
    ] = None,
    cluster_id: Annotated[int, typer.Option(help="Default: as the capture's meta file says.")] = 0,
    ssl_ca: Annotated[
        str, typer.Option(envvar="TIDELOG_SSL_CA", help="PEM of who vouches for the Pumps.")
    ] = "",
    ssl_cert: Annotated[
        str, typer.Option(envvar="TIDELOG_SSL_CERT", help="PEM of our certificate.")
    ] = "",
    ssl_key: Annotated[str, typer.Option(envvar="TIDELOG_SSL_KEY", help="PEM of its key.")] = "",
    as_json: Json = False,
) -> None:
    """Send a capture to the Pumps, in its order, each record after the ack of the one before."""

    async def work() -> int:
        payloads = list(capture.records(file))
        of = cluster_id or capture.cluster_id(file)
        pumps = grpc or await _grpc_addresses(directory, nats, cluster)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        tls = TlsFiles(ssl_ca=ssl_ca, ssl_cert=ssl_cert, ssl_key=ssl_key)
        async with capture.Replayer(pumps, of, tls) as replayer:
            with Progress(*columns, console=errors) as progress:
                bar = progress.add_task("replaying", total=len(payloads))
                for payload in payloads:
                    await replayer.send(payload)
                    progress.advance(bar)
        done = replayer.result()
        if as_json:
            emit(done)
        else:
            console.print(
                f"{done.sent} records, {done.transactions} commits up to {done.max_commit_ts}"
            )
        return 0

    run(work())


async def _grpc_addresses(directory: Path | None, nats: str, cluster: str) -> list[str]:
    """Of the topology's Pumps: as `up` wrote them down, or as the registry knows them."""
    state = state_file.find(directory, nats, cluster, "")
    if state.pumps:
        return [pump.grpc for pump in state.pumps]
    async with connected(state) as bus:
        return pump_addresses(await nodes_soon(bus, state.cluster))
