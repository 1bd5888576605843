"""`tidelog status`: its options."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Annotated

import typer
from rich.live import Live

from tidelog_cli import state_file, status
from tidelog_cli.connect import connected, nodes_soon
from tidelog_cli.glance import Glance
from tidelog_cli.terminal import Cluster, Dir, Feed, Json, Nats, console, emit, run, until_signal

WATCH_S = 1.0


def status_command(
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    feed: Feed = "",
    watch: Annotated[bool, typer.Option("--watch", help="Again each second.")] = False,
    as_json: Json = False,
) -> None:
    """Nodes, positions and lags."""

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, feed)
        async with connected(state) as bus:

            async def look() -> status.Report:
                return status.report(await nodes_soon(bus, state.cluster), state.feed)

            if as_json:
                emit(await look())
                return 0
            if not watch:
                console.print(status.render(await look()))
                return 0
            stop = asyncio.Event()
            until_signal(stop)
            shown = Glance(await look())
            # A screen of its own: what is resized meanwhile leaves nothing behind.
            with Live(shown, console=console, screen=console.is_terminal) as live:
                while not stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), WATCH_S)
                    shown = Glance(await look())
                    live.update(shown)
            if console.is_terminal:
                console.print(shown)
            return 0

    run(work())
