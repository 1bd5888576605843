"""Who is cancelled as nats-py connects, waits or closes ends, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.transport import TcpTransport

from tests.adapters.bus.serving import narrow
from tests.conditions import until
from tests.servers import NatsServer, nats_server
from tidelog.errors import Unavailable
from tidelog.real import nats_client
from tidelog.real.bus import NatsBus


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


def refused_as_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Task[Any]]:
    """Each further try to connect meets its refusal in the moment that it is cancelled in: once.
    `asyncio.wait_for` tells of the refusal only. Returns who tried."""
    tried: list[asyncio.Task[Any]] = []

    async def connect(*_: object, **__: object) -> None:
        task = asyncio.current_task()
        assert task is not None
        tried.append(task)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise ConnectionRefusedError

    monkeypatch.setattr(TcpTransport, "connect", connect)
    return tried


def test_who_is_cancelled_as_it_is_refused_does_not_try_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        tried = refused_as_it_is_cancelled(monkeypatch)
        connecting = asyncio.create_task(NatsBus.connect("nats://127.0.0.1:4222"))
        await until(lambda: len(tried) == 1)
        connecting.cancel()
        await asyncio.wait([connecting], timeout=5)
        assert connecting.cancelled()
        with pytest.raises(Unavailable):
            await NatsBus.connect("nats://127.0.0.1:4222", timeout_s=0.05)
        assert len(tried) == 2

    asyncio.run(run())


async def ended(bus: NatsBus) -> bool:
    """Whether a close that is cancelled a moment from now leaves nothing that runs."""
    before = asyncio.all_tasks()
    closing = asyncio.create_task(bus.close())
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing], timeout=5)
    running = before - {asyncio.current_task()}
    await asyncio.wait(running, timeout=5)
    return closing.cancelled() and all(one.done() for one in running)


def test_a_close_that_is_cancelled_while_the_server_stands_still_ends_all(
    server: NatsServer,
) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        server.pause()
        try:
            assert await ended(bus)
        finally:
            server.resume()

    asyncio.run(run())


def test_a_close_that_is_cancelled_leaves_nobody_who_reconnects(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        tried = refused_as_it_is_cancelled(monkeypatch)
        server.kill()
        await until(lambda: len(tried) == 1)
        assert await ended(bus)
        assert len(tried) == 1

    asyncio.run(run())


def test_a_reconnection_that_succeeds_in_the_moment_of_the_close_leaves_nothing(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nats-py calls itself connected then, and begins to read."""
    real = Client._process_connect_init

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        client: Any = bus.connection._client
        closing: list[asyncio.Task[None]] = []

        async def initialized(self: Client) -> None:
            if not closing:
                closing.append(asyncio.create_task(bus.connection.close()))
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
            await real(self)

        monkeypatch.setattr(Client, "_process_connect_init", initialized)
        server.kill()
        await until(lambda: not bus.connected)
        await asyncio.to_thread(server.start)
        await until(lambda: closing != [])
        await closing[0]
        left = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait(left, timeout=5) if left else None
        assert not [one for one in left if not one.done()]
        assert client.is_closed

    asyncio.run(run())


def test_the_end_of_reconnecting_that_is_cancelled_cuts_the_line_all_the_same(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def waits(_: object) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        client: Any = bus.connection._client
        link = client._transport._io_writer.transport
        monkeypatch.setattr(nats_client.SinkClient, "_end_reconnecting", waits)
        monkeypatch.setattr(nats_client.SinkClient, "close", waits)
        monkeypatch.setattr(nats_client, "END_S", 20.0)
        closing = asyncio.create_task(bus.connection.close())
        for _ in range(2):
            await asyncio.sleep(0)
            closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert link.is_closing()

    asyncio.run(run())


def test_who_waits_for_a_server_that_stands_still_ends_when_told(server: NatsServer) -> None:
    """nats-py's own wait for it to take what is written takes a cancellation for nothing."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        client: Any = bus.connection._client
        narrow(bus)
        server.pause()
        try:
            large = bytes(bus.max_payload)
            for _ in range(4):
                await bus.publish("x", large)
            link = client._transport._io_writer.transport
            await until(lambda: link.get_write_buffer_size() > len(large) // 2)
            flushing = asyncio.create_task(client._flush_pending(force_flush=True))
            await asyncio.sleep(0)
            flushing.cancel()
            await asyncio.wait([flushing])
            assert flushing.cancelled()
        finally:
            server.resume()
        await bus.close()

    asyncio.run(run())
