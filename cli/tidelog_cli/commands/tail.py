"""`tidelog tail`: its options."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.feeds import checked_name
from tidelog.real.rng import RealRng
from tidelog_cli import kept, state_file, tail
from tidelog_cli.terminal import Cluster, Dir, Feed, Json, Nats, console, emit, run


def tail_command(
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    feed: Feed = "",
    table: Annotated[str, typer.Option(help="Only this table (name or db.name).")] = "",
    after: Annotated[
        str,
        typer.Option(
            metavar=f"COMMIT_TS|{tail.NOW}",
            help="From this commit_ts on, out of the Pumps where the stream begins later; now ="
            " only what is published from now on; -1 = all that the stream keeps.",
        ),
    ] = "-1",
    watermarks: Annotated[bool, typer.Option(help="Show watermarks too.")] = False,
    until_idle: Annotated[bool, typer.Option(help="End when nothing is left to read.")] = False,
    as_json: Json = False,
) -> None:
    """The change stream, a line an event; of a stopped topology, what its directory keeps."""

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, checked_name(feed) if feed else "")
        async with kept.reading(None if nats else directory, state) as (bus, runs):
            found = tail.follow(
                bus,
                state.cluster,
                state.feed,
                after=await tail.beginning(bus, state.feed, after),
                table=table,
                watermarks=watermarks,
                until_idle=until_idle or not runs,
                rewinds=f"tail-{RealRng().token()}" if runs else "",
            )
            async for line in found:
                if as_json:
                    emit(line)
                else:
                    console.print(tail.as_text(line), highlight=False, markup=False, soft_wrap=True)
        return 0

    run(work())
