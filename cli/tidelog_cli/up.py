"""`tidelog up`: the whole topology in the foreground."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from tidelog.errors import ConfigError
from tidelog.real.processes import RealProcesses
from tidelog_cli.state_file import TopologyState
from tidelog_cli.topology import Options, Topology


def options(
    directory: Path,
    downstream: str,
    pumps: int,
    ddl_history: str,
    oracle: str,
    initial_commit_ts: int,
    cluster_id: int,
    feed: str,
) -> Options:
    """Checked options. Raises ConfigError for forms that no child would understand."""
    if not downstream.startswith(("sqlite:", "mysql:")):
        raise ConfigError(
            "the downstream's form is not known",
            hint="sqlite:////absolute/path or mysql://USER:PASSWORD@HOST:PORT/",
        )
    if oracle not in ("embedded", "follow"):
        raise ConfigError(f"--oracle {oracle} is not known", hint="embedded or follow")
    if ddl_history != "embedded" and not ddl_history.startswith(("file:", "http:", "https:")):
        raise ConfigError(
            f"--ddl-history {ddl_history} is not known",
            hint="embedded, file:PATH or http://HOST:PORT",
        )
    return Options(
        directory=directory.absolute(),
        downstream=downstream,
        pumps=pumps,
        ddl_history=ddl_history,
        oracle=oracle,
        initial_commit_ts=initial_commit_ts,
        cluster_id=cluster_id,
        feed=feed,
    )


async def run(
    chosen: Options,
    stop: asyncio.Event,
    on_ready: Callable[[TopologyState], None],
    on_trouble: Callable[[str], None] = lambda _: None,
) -> None:
    """Until `stop`. `on_trouble` gets a line for each child that ended by itself."""
    await Topology(chosen, RealProcesses(), on_trouble).run(stop, on_ready)


def ready_line(state: TopologyState) -> dict[str, Any]:
    """The one JSON line of `up --json`."""
    return {
        "event": "ready",
        "nats": state.nats,
        "pumps": [{"node": p.node, "grpc": p.grpc} for p in state.pumps],
        "http": state.http,
    }


def program() -> str:
    """How this program was called, for lines to copy."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m tidelog_cli"
    return shlex.quote(str(called))


def greet(console: Console, directory: Path, state: TopologyState) -> None:
    """What is where and what to do next, for a person; lines to copy are never wrapped."""

    def line(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    where = shlex.quote(str(directory))
    console.print(f"[green]ready[/green]  NATS {state.nats}", highlight=False)
    for pump in state.pumps:
        line(f"  {pump.node}: gRPC {pump.grpc}")
    line("look around, from another terminal:")
    line(f"  {program()} status --dir {where} --watch")
    line(f"  {program()} tail --dir {where}")
    line("Ctrl-C stops everything in order")
