"""What failed for minutes has taken no memory with it: errors, streams and requests go at once."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

import pytest
import uvloop

from tests.conditions import until
from tests.cycles import left_in_cycles
from tests.servers import NatsServer, nats_server
from tidelog.errors import NoResponders, StreamMissing
from tidelog.ports import Outgoing
from tidelog.real import bus_metrics
from tidelog.real.bus import NatsBus

MANY = 50


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


def test_a_request_that_fails(server: NatsServer) -> None:
    """A Pump that is away is asked many times a second."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        with pytest.raises(NoResponders):
            await bus.request("nobody", b"", timeout_s=5)
        with left_in_cycles() as left:
            for _ in range(MANY):
                with contextlib.suppress(NoResponders):
                    await bus.request("nobody", b"", timeout_s=5)
        await bus.close()
        assert not left, left

    uvloop.run(run())


def test_an_append_that_fails(server: NatsServer) -> None:
    batch = [Outgoing("nobody", b"1"), Outgoing("nobody", b"2")]

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        with contextlib.suppress(StreamMissing):
            await bus.append("S", batch)
        with left_in_cycles() as left:
            for _ in range(MANY):
                with contextlib.suppress(StreamMissing):
                    await bus.append("S", batch)
        await bus.close()
        assert not left, left

    uvloop.run(run())


def test_an_attempt_to_connect_that_fails(server: NatsServer) -> None:
    """By refused connections while the server is away."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        server.kill()
        await until(lambda: not bus.connected)
        before = bus_metrics.errors._value.get()
        with left_in_cycles() as left:
            await until(lambda: bus_metrics.errors._value.get() > before + 5)
        await bus.close()
        assert left["ConnectionRefusedError"] == left["StreamReader"] == 0, left

    uvloop.run(run())


class Resetting:
    """A server that is killed with something unread: each second connection when all is well."""

    def __init__(self, bus: NatsBus) -> None:
        self._bus = bus
        self.resets = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        self.resets += 1
        if self.resets % 2:
            writer.write(b'INFO {"server_id":"S","version":"2.12.0","max_payload":1048576}\r\n')
            for _ in range(2):  # of the handshake, and once it is connected
                while await reader.readline() not in (b"PING\r\n", b""):
                    pass
                writer.write(b"PONG\r\n")
            await until(lambda: self._bus.connected)
        writer.transport.abort()


def test_a_connection_that_is_reset(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        server.kill()
        await until(lambda: not bus.connected)
        there = Resetting(bus)
        port = int(server.url.rpartition(":")[2])
        listening = await asyncio.start_server(there.serve, "127.0.0.1", port)
        await until(lambda: there.resets > 1)
        before, made = there.resets, bus.reconnects
        with left_in_cycles() as left:
            await until(lambda: there.resets > before + 4)
        listening.close()
        made = bus.reconnects - made
        await bus.close()
        assert made, "none was ever connected"
        assert left["ConnectionResetError"] == left["TcpTransport"] == 0, left

    uvloop.run(run())


def test_one_that_says_something_else_than_nats_does(server: NatsServer) -> None:
    """A line without an end, from who took the port: tried again, as a reset is."""
    spoken = 0

    async def strange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal spoken
        spoken += 1
        writer.write(b"X" * 200_000)
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.transport.abort()

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        server.kill()
        await until(lambda: not bus.connected)
        port = int(server.url.rpartition(":")[2])
        listening = await asyncio.start_server(strange, "127.0.0.1", port)
        await until(lambda: spoken > 1)
        before = spoken
        with left_in_cycles() as left:
            await until(lambda: spoken > before + 4)
        listening.close()
        await bus.close()
        assert left["LimitOverrunError"] == left["TcpTransport"] == 0, left

    uvloop.run(run())
