"""`tidelog resolve`: its options."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from tidelog_cli import resolve, state_file
from tidelog_cli.connect import connected
from tidelog_cli.terminal import Cluster, Dir, Json, Nats, Yes, confirming, emit, run, say


def resolve_command(
    start_ts: Annotated[int, typer.Argument(help="The transaction.", min=1)],
    commit: Annotated[int | None, typer.Option(help="It committed at this timestamp.")] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="It never committed.")] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="It came late: readers past it may miss it.")
    ] = False,
    yes: Yes = False,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Say what became of a transaction that `status` shows as open or late."""

    async def work() -> int:
        verdict = resolve.choose(commit, rollback=rollback, accept=accept)
        state = state_file.find(directory, nats, cluster, "")
        async with connected(state) as bus:
            done = await resolve.resolve(
                bus, state.cluster, start_ts, verdict, commit or 0, confirming(yes=yes)
            )
        if as_json:
            emit(done)
        for node, said in sorted(done.pumps.items()):
            say(Text(f"{node}: transaction {start_ts} {resolve.became(said)}"))
        return 0

    run(work())
