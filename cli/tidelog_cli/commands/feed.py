"""`tidelog feed …`: their options."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from tidelog_cli import feed as feeds
from tidelog_cli import state_file
from tidelog_cli.connect import connected
from tidelog_cli.terminal import Cluster, Dir, Json, Nats, Yes, confirming, emit, run, say

app = typer.Typer(help="Feeds.", no_args_is_help=True)


@app.command("forget")
def forget_command(
    name: Annotated[str, typer.Argument(help="The feed.")],
    yes: Yes = False,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "default",
    as_json: Json = False,
) -> None:
    """Let the Pumps forget a feed that nobody reads: it holds nothing back any more."""

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, "")
        async with connected(state) as bus:
            done = await feeds.forget(bus, state.cluster, name, confirming(yes=yes))
        if as_json:
            emit(done)
        for node, after_ts in sorted(done.pumps.items()):
            say(Text(f"{node}: feed {name} had read up to {after_ts}, forgotten"))
        for node in done.silent:
            say(Text(f"{node}: does not answer, and knows it still: forget it again later"))
        return 0

    run(work())
