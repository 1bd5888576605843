"""`tidelog nodes`, `pumps`, `drainers`, `appliers`: their options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from tidelog.messages import APPLIER, DRAINER, OFFLINE, PUMP
from tidelog.node_form import node_forms
from tidelog.node_notes import notes
from tidelog_cli import state_file
from tidelog_cli.connect import connected, nodes_soon
from tidelog_cli.node_table import FIELDS, NodeTable
from tidelog_cli.terminal import Cluster, Dir, Json, Nats, console, emit, run

HELP = {
    "": "Who is in the cluster: states, positions, complaints.",
    PUMP: "The Pumps: states, positions, complaints.",
    DRAINER: "The Drainers: states, positions, complaints.",
    APPLIER: "The Appliers: states, positions, complaints.",
}


def listing(kind: str) -> Callable[..., None]:
    """The command that lists the nodes of a kind; "" = of all."""

    def command(
        directory: Dir = None,
        nats: Nats = "",
        cluster: Cluster = "",
        everyone: Annotated[
            bool, typer.Option("--all", help="In the table, those that are offline too.")
        ] = False,
        as_json: Json = False,
    ) -> None:
        run(show(kind, directory, nats, cluster, everyone=everyone, as_json=as_json))

    command.__doc__ = HELP[kind]
    return command


async def show(
    kind: str,
    directory: Path | None,
    nats: str,
    cluster: str,
    *,
    everyone: bool,
    as_json: bool,
) -> int:
    state = state_file.find(directory, nats, cluster, "")
    async with connected(state) as bus:
        found = await nodes_soon(bus, state.cluster)
    forms = node_forms(found, kind)
    if as_json:
        emit(forms)
        return 0
    shown = [form for form in forms if everyone or form["state"] != OFFLINE]
    if shown:
        console.print(NodeTable(shown, FIELDS if not kind else FIELDS[1:]))
    else:
        console.print(f"no {kind or 'node'} is registered", highlight=False)
    for line in notes(shown):
        console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)
    if len(shown) < len(forms):
        console.print(f"{len(forms) - len(shown)} offline: --all shows them", highlight=False)
    return 0


nodes_command = listing("")
pumps_command = listing(PUMP)
drainers_command = listing(DRAINER)
appliers_command = listing(APPLIER)
