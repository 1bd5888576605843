"""`tidelog feed …`: their options."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from tidelog.feeds import NOW, Feed
from tidelog.real.bus import NatsBus
from tidelog.timestamps import compose, moment
from tidelog_cli import feed as feeds
from tidelog_cli.connect import on_cluster
from tidelog_cli.terminal import (
    Cluster,
    Dir,
    Json,
    Nats,
    Yes,
    confirming,
    console,
    emit,
    say,
)

app = typer.Typer(help="Feeds.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(help="The feed.")]


@app.command("create")
def create_command(
    name: Name,
    initial_commit_ts: Annotated[
        int, typer.Option(min=NOW, help="Where it begins: 0 = all that the Pumps hold, -1 = now")
    ] = 0,
    if_missing: Annotated[
        bool, typer.Option("--if-missing", help="One that is there stays as it is: no error.")
    ] = False,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Say once where a feed begins. Its Drainer waits for that."""

    async def work(bus: NatsBus, of: str) -> None:
        if if_missing and await feeds.is_there(bus, of, name):
            if as_json:
                emit(await feeds.found(bus, of, name))
            else:
                say(Text(f"feed {name} is there"))
            return
        done = await feeds.create(bus, of, name, initial_commit_ts)
        if as_json:
            emit(done)
        else:
            say(Text(f"feed {name} begins after commit_ts {done.initial_commit_ts}"))

    on_cluster(directory, nats, cluster, work)


@app.command("list")
def list_command(
    directory: Dir = None, nats: Nats = "", cluster: Cluster = "", as_json: Json = False
) -> None:
    """The feeds that were created."""

    async def work(bus: NatsBus, of: str) -> None:
        found = await feeds.listed(bus, of)
        for feed in found:
            _tell(feed, as_json)

    on_cluster(directory, nats, cluster, work)


@app.command("show")
def show_command(
    name: Name,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """What was recorded when it was created."""

    async def work(bus: NatsBus, of: str) -> None:
        _tell(await feeds.shown(bus, of, name), as_json)

    on_cluster(directory, nats, cluster, work)


def _tell(feed: Feed, as_json: bool) -> None:
    if as_json:
        emit(feed)
        return
    state = "has begun" if feed.begun else "waits for its Drainer"
    when = moment(compose(feed.created_ms))
    created = f"created {when}" if when else "older than its record"
    line = f"{feed.name}  from {feed.initial_commit_ts} on, {created}, {state}"
    console.print(Text(line), soft_wrap=True)


@app.command("forget")
def forget_command(
    name: Name,
    yes: Yes = False,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Let the Pumps forget a feed that nobody reads: it holds nothing back any more."""

    async def work(bus: NatsBus, of: str) -> None:
        done = await feeds.forget(bus, of, name, confirming(yes=yes))
        if as_json:
            emit(done)
        for node, after_ts in sorted(done.pumps.items()):
            say(Text(f"{node}: feed {name} had read up to {after_ts}, forgotten"))
        for node in done.silent:
            say(Text(f"{node}: does not answer, and knows it still: forget it again later"))

    on_cluster(directory, nats, cluster, work)


@app.command("unregister")
def unregister_command(
    name: Name,
    consumer: Annotated[str, typer.Argument(help="As `status --json` has it.")],
    yes: Yes = False,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Let go of an application that read a feed: the Pumps wait for it no longer."""

    async def work(bus: NatsBus, of: str) -> None:
        done = await feeds.unregister(bus, of, name, consumer, confirming(yes=yes))
        if as_json:
            emit(done)
        else:
            say(Text(f"{consumer} had read feed {name} up to {done.commit_ts}: not waited for now"))

    on_cluster(directory, nats, cluster, work)
