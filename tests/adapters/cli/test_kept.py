"""The stream that a stopped topology left in its directory: a server is started to read it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tidelog.errors import ConfigError, ForeignDirectory, Unavailable
from tidelog.ports import StreamConfig
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.real.nats_server import EmbeddedNats
from tidelog.security.access import NatsAccess
from tidelog_cli import kept, state_file
from tidelog_cli.state_file import TopologyState
from tidelog_cli.topology import LOCK_FILE, NATS


async def left_behind(directory: Path) -> TopologyState:
    """A directory with a stream, as `up` leaves it."""
    server = EmbeddedNats(directory / NATS)
    await server.start()
    bus = await NatsBus.connect(server.url)
    await bus.stream_create(StreamConfig("S", ("s.>",)))
    await bus.close()
    state = TopologyState(server.url, "default", "main")
    await server.stop()
    return state


def test_it_is_served_while_it_is_read_and_no_longer(tmp_path: Path) -> None:
    async def read() -> None:
        state = await left_behind(tmp_path)
        async with kept.reading(tmp_path, state) as (bus, runs):
            assert not runs
            assert await bus.stream_state("S") is not None
            with pytest.raises(ForeignDirectory):  # `up` would get in the way
                RealDisk(tmp_path).lock(LOCK_FILE)
        RealDisk(tmp_path).lock(LOCK_FILE).release()

    asyncio.run(read())


def test_a_topology_that_is_known_by_its_url_alone_has_no_directory(tmp_path: Path) -> None:
    async def read() -> None:
        state = await left_behind(tmp_path)
        with pytest.raises(Unavailable, match="no topology runs at"):
            async with kept.reading(None, state):
                raise AssertionError("nobody is there")

    asyncio.run(read())


def test_whom_an_earlier_version_let_in_is_not_guessed(tmp_path: Path) -> None:
    """It did not write down its keys, and the server was open to everybody."""

    async def read() -> None:
        state = await left_behind(tmp_path)
        access = NatsAccess(nats_nkey_file="keys/admin/nkey")
        state_file.write(tmp_path, msgspec.structs.replace(state, access=access))
        with pytest.raises(ConfigError, match="does not say whom its NATS server lets in") as told:
            async with kept.reading(tmp_path, state):
                raise AssertionError("everybody is let in")
        assert "`tidelog up`" in told.value.hint
        RealDisk(tmp_path).lock(LOCK_FILE).release()

    asyncio.run(read())


def test_a_reader_s_own_trouble_is_no_server_that_is_away(tmp_path: Path) -> None:
    async def read(server: EmbeddedNats) -> None:
        async with kept.reading(tmp_path, TopologyState(server.url, "c", "main")) as (_, runs):
            assert runs
            raise Unavailable("of the reader")

    async def scenario() -> None:
        await left_behind(tmp_path)
        server = EmbeddedNats(tmp_path / NATS)
        await server.start()
        try:
            with pytest.raises(Unavailable, match="of the reader"):
                await read(server)
        finally:
            await server.stop()

    asyncio.run(scenario())
