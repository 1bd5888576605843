"""`tidelog wait`: its options."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog_cli import state_file, wait
from tidelog_cli.connect import connected
from tidelog_cli.terminal import Cluster, Dir, Feed, Json, Nats, emit, errors, run


def wait_command(
    commit_ts: Annotated[int, typer.Option(help="What the downstream must hold.")],
    timeout: Annotated[float, typer.Option(help="Seconds.")] = 60.0,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    feed: Feed = "",
    as_json: Json = False,
) -> None:
    """Return 0 once the downstream holds everything up to a commit_ts."""

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, feed)
        async with connected(state) as bus:
            with errors.status(f"waiting for {commit_ts}") as shown:
                reached = await wait.applied(
                    bus,
                    state.cluster,
                    state.feed,
                    commit_ts,
                    timeout,
                    lambda ts: shown.update(f"waiting for {commit_ts}, at {ts}"),
                )
        if as_json:
            emit({"applied_ts": reached})
        return 0

    run(work())
