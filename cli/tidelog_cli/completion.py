"""Names for the shell's completion: quick, and silent when nobody answers."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import typer

from tidelog import logs
from tidelog_cli import state_file
from tidelog_cli.connect import connected, nodes
from tidelog_cli.state_file import TopologyState

QUICK_S = 1.0


def node_names(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Nodes of the running topology that begin so, with their kind and state."""
    logs.configure("text", "error", stream=io.StringIO())
    given = ctx.params
    directory, nats = given.get("directory"), given.get("nats") or ""
    cluster = given.get("cluster") or "default"
    try:
        where = Path(directory) if directory else None
        state = state_file.find(where, nats, cluster, "")
        found = asyncio.run(asyncio.wait_for(_known(state), QUICK_S))
    except Exception:  # noqa: BLE001 (whatever it is, a half-typed command is no place to tell)
        return []
    return [(name, says) for name, says in found if name.startswith(incomplete)]


async def _known(state: TopologyState) -> list[tuple[str, str]]:
    async with connected(state) as bus:
        found = await nodes(bus, state.cluster)
    return sorted({(n.nodeId, f"{n.kind}, {n.state}") for n in found.nodes})
