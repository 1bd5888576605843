"""A command's connection to a running topology."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tidelog import ask_registry, messages
from tidelog.config import redacted_url
from tidelog.errors import Unavailable
from tidelog.messages import Nodes
from tidelog.ports import Bus
from tidelog.positions import of_kind
from tidelog.real.bus import NatsBus
from tidelog_cli import state_file
from tidelog_cli.state_file import TopologyState
from tidelog_cli.terminal import patience, run

TIMEOUT_S = 5.0
CONNECT_S = 3.0
"""Longer than `up` takes to start a NATS server again."""


@asynccontextmanager
async def connected(state: TopologyState) -> AsyncIterator[NatsBus]:
    """The bus of the topology. Raises Unavailable if its NATS server does not answer, and what it
    refuses us by."""
    try:
        with patience(f"NATS at {redacted_url(state.nats)}"):
            bus = await NatsBus.connect(
                state.nats, name="tidelog-cli", timeout_s=CONNECT_S, access=state.access
            )
    except Unavailable as error:
        raise Unavailable(
            f"no topology runs at {redacted_url(state.nats)}: its NATS server does not answer",
            hint="start it with `tidelog up` in its directory, or check --dir and --nats",
        ) from error
    try:
        yield bus
    finally:
        await bus.close()


def on_cluster(
    directory: Path | None,
    nats: str,
    cluster: str,
    work: Callable[[NatsBus, str], Awaitable[None]],
) -> None:
    """Run a command's work with the bus of the topology that was named, and its cluster. Ends the
    process as `run` does."""

    async def connected_work() -> int:
        state = state_file.find(directory, nats, cluster, "")
        async with connected(state) as bus:
            await work(bus, state.cluster)
        return 0

    run(connected_work())


async def nodes(bus: Bus, cluster: str) -> Nodes:
    """Everything the registry knows. Raises Unavailable."""
    return await ask_registry.nodes(bus, cluster, timeout_s=TIMEOUT_S)


async def nodes_soon(bus: Bus, cluster: str) -> Nodes:
    """As `nodes`, for a person who waits for the answer."""
    with patience(f"the registry of cluster {cluster!r}"):
        return await nodes(bus, cluster)


def pump_addresses(found: Nodes) -> list[str]:
    """Where the Pumps serve gRPC. Raises Unavailable if none does."""
    here = [n.host for n in of_kind(found, messages.PUMP) if n.isAlive and n.host]
    if not here:
        raise Unavailable("no Pump that is alive serves gRPC", hint="see `tidelog status`")
    return here
