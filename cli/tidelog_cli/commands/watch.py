"""`tidelog watch`: its options."""

from __future__ import annotations

import asyncio

from rich.text import Text

from tidelog.messages import Nodes
from tidelog.real.clock import RealClock
from tidelog_cli import state_file, watch
from tidelog_cli.connect import connected
from tidelog_cli.terminal import Cluster, Dir, Json, Nats, console, emit, run, say, until_signal


def watch_command(
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Each change of a node's state as it happens, a line each, until Ctrl-C."""

    def begins(found: Nodes) -> None:
        say(Text(f"watching {len(found.nodes)} nodes; Ctrl-C ends it", "dim"))

    def show(line: watch.Line) -> None:
        if as_json:
            emit(watch.as_form(line))
        else:
            console.print(watch.as_text(line), highlight=False, soft_wrap=True)

    def waits(why: str) -> None:
        say(Text(f"not yet: {why}", "yellow"))

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, "")
        async with connected(state) as bus:
            stop = asyncio.Event()
            until_signal(stop)
            await watch.follow(bus, state.cluster, RealClock(), stop, begins, show, waits)
        return 0

    run(work())
