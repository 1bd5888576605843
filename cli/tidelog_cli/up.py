"""`tidelog up`: the whole topology in the foreground.

Ready says that the Pumps take writes. It waits for Drainer and Applier to be ready, too, but not
for ever: see `readiness.py`.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from tidelog.errors import ConfigError, Unavailable
from tidelog.feeds import check_name, refuse_future
from tidelog.ports import Clock
from tidelog.real.clock import RealClock
from tidelog.real.processes import RealProcesses
from tidelog.upstream.config import UpstreamConfig
from tidelog.upstream.pd import PdClient
from tidelog.upstream.rpc import Rpc
from tidelog_cli import state_file
from tidelog_cli.feed import this_moment
from tidelog_cli.state_file import TopologyState
from tidelog_cli.topology import Options, Topology

DOWNSTREAMS = ("sqlite:", "mysql:", "mariadb:", "tidb:", "file:", "blackhole:")


def options(directory: Path, downstream: str, **more: Any) -> Options:
    """Checked options. Raises ConfigError, BadInput for forms that no child would understand."""
    chosen = Options(directory=directory.absolute(), downstream=downstream, **more)
    if not downstream.startswith(DOWNSTREAMS):
        raise ConfigError(
            "the downstream's form is not known",
            hint="sqlite:////absolute/path, mysql://USER@HOST:PORT/, file:///absolute/directory or"
            " blackhole:",
        )
    try:
        check_name(chosen.feed)
    except ValueError as error:
        raise ConfigError(f"--feed: {error}") from error
    _check_upstream(chosen)
    refuse_future(chosen.initial_commit_ts, this_moment())
    return chosen


def _check_upstream(chosen: Options) -> None:
    """Who gives timestamps, and where the schema comes from. Raises ConfigError."""
    history = chosen.ddl_history
    if chosen.oracle not in ("embedded", "pd", "follow"):
        raise ConfigError(f"--oracle {chosen.oracle} is not known", hint="embedded, pd or follow")
    if history not in ("embedded", "pd") and not history.startswith(("file:", "http:", "https:")):
        raise ConfigError(
            f"--ddl-history {history} is not known",
            hint="embedded, file:PATH, http(s)://HOST:PORT or pd",
        )
    if chosen.pd_urls:
        UpstreamConfig(pd_urls=chosen.pd_urls, security=chosen.upstream_tls)
    elif chosen.upstream_tls.on and not history.startswith("https:"):
        raise ConfigError(
            "--upstream-ca and --upstream-cert are given, and nothing is asked with them",
            hint="https:// in --pd-urls or --ddl-history, or leave them out",
        )
    elif "pd" in (chosen.oracle, history):
        raise ConfigError("nothing says where PD is", hint="--pd-urls http://HOST:2379")


async def with_cluster_id(chosen: Options, rpc: Rpc, clock: Clock) -> Options:
    """With the id that the directory has from before, or else of the cluster that PD is of, where
    nobody said one: a TiDB's binlogs carry it, and Pumps refuse all others. Raises ConfigError,
    Unavailable."""
    if chosen.cluster_id or not chosen.pd_urls:
        return chosen
    before = state_file.read(chosen.directory)
    if before is not None:
        return msgspec.structs.replace(chosen, cluster_id=before.cluster_id)
    pd = PdClient(rpc, clock, chosen.pd_urls)
    try:
        await pd.leader()
    except Unavailable as error:
        if pd.cluster_id:  # it only has no leader yet
            return msgspec.structs.replace(chosen, cluster_id=pd.cluster_id)
        raise Unavailable(
            f"the upstream's cluster id is not known: {error.message}",
            hint="start PD first, or say --cluster-id; one that speaks TLS: https:// in --pd-urls,"
            " --upstream-ca, and --upstream-cert where it asks for one",
        ) from error
    return msgspec.structs.replace(chosen, cluster_id=pd.cluster_id)


async def run(
    chosen: Options,
    stop: asyncio.Event,
    on_ready: Callable[[TopologyState], None],
    on_trouble: Callable[[str], None] = lambda _: None,
) -> None:
    """Until `stop`. `on_trouble` gets a line for each child that ended by itself, for whom a start
    waits that takes long, and for each error that a node shows or loses later."""
    if chosen.pd_urls:
        from tidelog.real.grpc_rpc import GrpcRpc  # gRPC takes a while to load

        rpc = GrpcRpc(chosen.upstream_tls)
        try:
            chosen = await with_cluster_id(chosen, rpc, RealClock())
        finally:
            await rpc.close()
    await Topology(chosen, RealProcesses(), on_trouble).run(stop, on_ready)


def ready_line(state: TopologyState) -> dict[str, Any]:
    """The one JSON line of `up --json`."""
    return {
        "event": "ready",
        "nats": state.nats,
        "pumps": [{"node": p.node, "grpc": p.grpc} for p in state.pumps],
        "http": state.http,
        "console": state.console,
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
        line(f"  {pump.node}: gRPC {pump.grpc}" + (f", socket {pump.socket}" * bool(pump.socket)))
    if state.console:
        line(f"  console: {state.console}")
    line("look around, from another terminal:")
    line(f"  {program()} status --dir {where} --watch")
    line(f"  {program()} tail --dir {where}")
    line("Ctrl-C stops everything in order")
