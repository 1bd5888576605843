"""The stream that a stopped topology left is served to whom the topology itself let in."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.servers import free_port
from tidelog.errors import TidelogError
from tidelog.ports import StreamConfig
from tidelog.real.bus import NatsBus
from tidelog.real.nats_server import EmbeddedNats
from tidelog.real.processes import RealProcesses
from tidelog.security.access import NatsAccess
from tidelog.security.identities import ADMIN
from tidelog_cli import kept, state_file
from tidelog_cli.topology import NATS, Options, Topology

STREAM = "CHANGES_MAIN"


async def stopped(options: Options) -> state_file.TopologyState:
    """What `up` leaves: its file, and a store with a stream in it."""
    nats = EmbeddedNats(options.directory / NATS, more=await options.secured())
    await nats.start()
    try:
        bus = await NatsBus.connect(nats.url, name="drainer", access=options.access("drainer"))
        try:
            await bus.stream_create(StreamConfig(STREAM, ("changes.main.>",)))
        finally:
            await bus.close()
    finally:
        await nats.stop()
    topology = Topology(options, RealProcesses())
    state = msgspec.structs.replace(topology.state(), nats=f"nats://127.0.0.1:{free_port()}")
    state_file.write(options.directory, state)
    return state


async def outcome(url: str, access: NatsAccess) -> str:
    try:
        bus = await NatsBus.connect(url, name="stranger", timeout_s=2.0, access=access)
    except TidelogError as error:
        return type(error).__name__
    await bus.close()
    return "let in"


@pytest.mark.parametrize("secured_by", ["keys", "certs", "both"])
def test_it_lets_in_whom_the_topology_did(
    secured_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(
        tmp_path,
        "blackhole:",
        keys=None if secured_by == "certs" else tmp_path / "keys",
        certs=None if secured_by == "keys" else tmp_path / "certs",
    )
    urls: list[str] = []
    start = EmbeddedNats.start

    async def started(self: EmbeddedNats) -> None:
        await start(self)
        urls.append(self.url)

    async def served() -> str:
        await stopped(options)
        monkeypatch.setattr(EmbeddedNats, "start", started)
        state = state_file.find(tmp_path, "", "", "")
        async with kept.reading(tmp_path, state) as (bus, runs):
            assert not runs
            assert await bus.stream_state(STREAM) is not None
            assert await outcome(urls[-1], options.access(ADMIN)) == "let in"
            return await outcome(urls[-1], NatsAccess())

    assert asyncio.run(served()) != "let in"
