"""Names for the shell's completion: quick, and silent when nobody answers."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import MutableMapping
from pathlib import Path

import typer

from tidelog import logs
from tidelog_cli import state_file
from tidelog_cli.connect import connected, nodes
from tidelog_cli.state_file import TopologyState

QUICK_S = 1.0
ASKED, BASH = "_TIDELOG_COMPLETE", "complete_bash"
BREAKS = re.compile("[:=]+")


def rejoin(environ: MutableMapping[str, str]) -> None:
    """bash breaks words at `:` and `=`, so that HOST:PORT and --nats=URL come in pieces: put them
    together in what typer reads, the words (a line each) and the number of the one to complete."""
    if environ.get(ASKED) != BASH:
        return
    at = int(environ["COMP_CWORD"])
    words: list[str] = []
    glue, completed = False, at
    for number, word in enumerate(environ["COMP_WORDS"].split("\n")):
        is_break = bool(BREAKS.fullmatch(word))
        if words and (glue or is_break):
            words[-1] += word
        else:
            words.append(word)
        if number == at:
            completed = len(words) - 1
        glue = is_break
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(words), str(completed)


def last_piece(name: str, incomplete: str) -> str:
    """What bash is to put in the place of the last piece of `incomplete`."""
    return name[max(incomplete.rfind(":"), incomplete.rfind("=")) + 1 :]


def node_names(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Nodes of the running topology that begin so, with their kind and state."""
    logs.configure("text", "error", stream=io.StringIO())
    given = ctx.params
    directory, nats = given.get("directory"), given.get("nats") or ""
    cluster = given.get("cluster") or ""
    try:
        where = Path(directory) if directory else None
        state = state_file.find(where, nats, cluster, "")
        found = asyncio.run(asyncio.wait_for(_known(state), QUICK_S))
    except Exception:  # noqa: BLE001 (whatever it is, a half-typed command is no place to tell)
        return []
    fitting = [(name, says) for name, says in found if name.startswith(incomplete)]
    if os.environ.get(ASKED) != BASH:
        return fitting
    return [(last_piece(name, incomplete), says) for name, says in fitting]


async def _known(state: TopologyState) -> list[tuple[str, str]]:
    async with connected(state) as bus:
        found = await nodes(bus, state.cluster)
    return sorted({(n.nodeId, f"{n.kind}, {n.state}") for n in found.nodes})
