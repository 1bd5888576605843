"""`tidelog ddl …`: their options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidelog.applier_control import ApplierRequest
from tidelog.ddl_pending import AGAIN, DONE
from tidelog.drainer_control import DrainerRequest, FeedDdls
from tidelog.errors import Unavailable
from tidelog_cli import ddl, state_file
from tidelog_cli.connect import connected
from tidelog_cli.terminal import Cluster, Dir, Feed, Json, Nats, console, emit, run, say

app = typer.Typer(help="DDLs that a feed skipped, rewrote, or stands at; an Applier, too.")

FeedName = Annotated[str, typer.Argument(help="The feed.")]
CommitTs = Annotated[int, typer.Argument(help="Where the feed stands.", min=1)]


@app.callback(invoke_without_command=True)
def list_command(
    context: typer.Context,
    feed: Feed = "",
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """DDLs that a feed skipped or rewrote, and the one it stands at."""
    if context.invoked_subcommand is None:
        run(_list(feed, directory, nats, cluster, as_json=as_json))


async def _list(
    feed: str, directory: Path | None, nats: str, cluster: str, *, as_json: bool
) -> int:
    state = state_file.find(directory, nats, cluster, feed)
    async with connected(state) as bus:
        try:
            found = await ddl.ask(bus, state.cluster, state.feed, DrainerRequest("ddls"))
        except Unavailable as error:
            found = await ddl.kept(bus, state.feed)
            say(Text(f"{error.message}: this is what one kept last", "dim"))
    _show(found, as_json=as_json)
    return 0


def _show(found: FeedDdls, *, as_json: bool) -> None:
    if as_json:
        emit(found)
        return
    if found.ddls:
        console.print(ddl.table(found))
    for line in ddl.notes(found):
        console.print(Text(line), soft_wrap=True)


def _order(
    feed: str,
    request: Callable[[], DrainerRequest],
    directory: Path | None,
    nats: str,
    cluster: str,
    *,
    as_json: bool,
) -> None:
    async def work() -> int:
        state = state_file.find(directory, nats, cluster, feed)
        async with connected(state) as bus:
            found = await ddl.ask(bus, state.cluster, feed, request())
        if as_json:
            emit(found)
        elif found.stands_at is not None:
            _show(found, as_json=False)
        else:
            say(Text(f"kept; feed {feed} stands at no DDL"))
        return 0

    run(work())


@app.command("pass")
def pass_command(
    feed: FeedName,
    commit_ts: CommitTs,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Publish the DDL that the feed stands at."""
    _order(
        feed,
        lambda: DrainerRequest("ddl-pass", commit_ts),
        directory,
        nats,
        cluster,
        as_json=as_json,
    )


@app.command("skip")
def skip_command(
    feed: FeedName,
    commit_ts: CommitTs,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Go on without the DDL that the feed stands at."""
    _order(
        feed,
        lambda: DrainerRequest("ddl-skip", commit_ts),
        directory,
        nats,
        cluster,
        as_json=as_json,
    )


def _decide(
    feed: str,
    word: str,
    commit_ts: int,
    directory: Path | None,
    nats: str,
    cluster: str,
    *,
    as_json: bool,
) -> None:
    async def work() -> int:
        state = state_file.find(directory, nats, cluster, feed)
        async with connected(state) as bus:
            request = ApplierRequest(f"ddl-{word}", commit_ts)
            found = await ddl.decide(bus, state.cluster, feed, request)
        if as_json:
            emit(found)
        for one in found:
            say(Text(f"{one.node} goes on: statement {one.step + 1} of {commit_ts} is {word}"))
        return 0

    run(work())


@app.command("done")
def done_command(
    feed: FeedName,
    commit_ts: CommitTs,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """The statement that the Applier stands at is done downstream: go on behind it."""
    _decide(feed, DONE, commit_ts, directory, nats, cluster, as_json=as_json)


@app.command("again")
def again_command(
    feed: FeedName,
    commit_ts: CommitTs,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Run the statement that the Applier stands at, on what is there now."""
    _decide(feed, AGAIN, commit_ts, directory, nats, cluster, as_json=as_json)


@app.command("policy")
def policy_command(
    feed: FeedName,
    policy: Annotated[
        str, typer.Argument(help="KIND=forward, =rewrite, =skip or =stop; KIND= undoes one.")
    ],
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Say what happens to all DDLs of a kind, now and later."""

    _order(feed, lambda: ddl.policy_order(policy), directory, nats, cluster, as_json=as_json)
