"""`tidelog pause`, `resume`, `offline`: their options."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from tidelog.messages import KINDS
from tidelog_cli import operate, state_file
from tidelog_cli.completion import node_names
from tidelog_cli.connect import connected
from tidelog_cli.operate import Wish
from tidelog_cli.terminal import (
    Cluster,
    Dir,
    Json,
    Nats,
    Yes,
    confirming,
    emit,
    errors,
    run,
    say,
)

Node = Annotated[str, typer.Argument(help="The node.", autocompletion=node_names)]
Kind = Annotated[
    str,
    typer.Option(
        help="pump, drainer or applier, where several have that name.",
        autocompletion=lambda: list(KINDS),
    ),
]
Timeout = Annotated[float, typer.Option(min=0.0, help="Seconds to wait until it has come true.")]


def pause_command(
    node: Node,
    timeout: Timeout = 60.0,
    kind: Kind = "",
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Until resume: a Pump takes no Prewrites and stays a source; a reader stands still."""
    wish = Wish(node, operate.PAUSE, kind)
    run(carry_out(wish, timeout, directory, nats, cluster, as_json=as_json))


def resume_command(
    node: Node,
    timeout: Timeout = 60.0,
    kind: Kind = "",
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """End a pause."""
    wish = Wish(node, operate.RESUME, kind)
    run(carry_out(wish, timeout, directory, nats, cluster, as_json=as_json))


def offline_command(
    node: Node,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="It is gone for good: nobody waits for it.")
    ] = False,
    yes: Yes = False,
    timeout: Timeout = 600.0,
    kind: Kind = "",
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Let a node go: a Pump once everybody has read what it holds. Returns when it is offline."""
    wish = Wish(node, operate.TAKE_OFFLINE, kind, accept_loss)
    run(carry_out(wish, timeout, directory, nats, cluster, yes=yes, as_json=as_json))


async def carry_out(
    wish: Wish,
    timeout_s: float,
    directory: Path | None,
    nats: str,
    cluster: str,
    *,
    as_json: bool,
    yes: bool = False,
) -> int:
    told: list[str] = []

    def confirm(may_lose: Sequence[str], question: str) -> None:
        for line in may_lose:
            say(Text(line, "yellow"))
        told.extend(may_lose)
        confirming(yes=yes)(question)

    state = state_file.find(directory, nats, cluster, "")
    async with connected(state) as bus:
        answer = await operate.ask(bus, state.cluster, wish, confirm)
        for line in answer.may_lose:
            if line not in told:
                say(Text(line, "yellow"))
        with errors.status(f"{wish.action} {wish.node}") as shown:

            def waits(why: str) -> None:
                if errors.is_terminal:
                    shown.update(Text(why))
                elif why not in told[-1:]:
                    told.append(why)
                    say(Text(why))

            done = await operate.come_true(bus, state.cluster, wish, answer, timeout_s, waits)
    if as_json:
        emit(done)
    else:
        say(Text(f"{done.node} is {done.state}", "green"))
    return 0
