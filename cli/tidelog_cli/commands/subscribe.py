"""`tidelog subscribe`: its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tidelog.errors import BadInput, TidelogError
from tidelog.feeds import checked_name
from tidelog.security.access import NatsAccess
from tidelog.security.identities import ADMIN, SUBSCRIBER
from tidelog_cli import state_file, subscribe
from tidelog_cli.access import given
from tidelog_cli.keys import seed_file
from tidelog_cli.subscribe import Language
from tidelog_cli.terminal import Cluster, Dir, Feed, Nats, fail


def subscribe_command(
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    feed: Feed = "",
    print_code: Annotated[
        Language | None, typer.Option(help="In this language, to standard output.")
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="db.table, db.* or *.table; several times; else every table."),
    ] = None,
) -> None:
    """A program that follows a feed of this topology, to begin an application with: whole
    transactions, each once, over restarts."""
    try:
        if print_code is None:
            raise BadInput(
                "a subscription is an application's: say in which language",
                hint="--print-code python, go or javascript; `tidelog tail` shows the changes",
            )
        state = state_file.find(directory, nats, cluster, checked_name(feed) if feed else "")
        wanted = subscribe.Wanted(
            state.nats, state.cluster, state.feed, tuple(table or ()), _access(state.access)
        )
        typer.echo(subscribe.program(print_code, wanted), nl=False)
    except TidelogError as error:
        fail(error)


def _access(found: NatsAccess) -> NatsAccess:
    """An application is no operator: where the topology's own directory names the operator's key,
    the subscribers' lies beside it."""
    key = Path(found.nats_nkey_file)
    if key.parent.name != ADMIN or given().nats_nkey_file:
        return found
    return msgspec.structs.replace(found, nats_nkey_file=seed_file(key.parent.parent, SUBSCRIBER))
