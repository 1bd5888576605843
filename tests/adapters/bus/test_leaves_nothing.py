"""What failed for minutes has taken no memory with it: errors, streams and requests go at once."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

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
