"""How nats-py's client breaks down on a real server, and how it ends: nobody is left waiting."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from structlog.testing import capture_logs

from tests.adapters.bus.serving import answered, echo, narrow
from tests.conditions import until
from tests.servers import NatsServer, nats_server
from tidelog.errors import DeadlineExceeded, NoResponders, Stopped, TidelogError, Unavailable
from tidelog.messages import ErrorReply, decode
from tidelog.ports import Outgoing, Request, StreamConfig
from tidelog.real import bus as real_bus
from tidelog.real import bus_metrics, connection, nats_client
from tidelog.real.bus import NatsBus

S = StreamConfig("S", ("s.>",))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


def test_an_error_of_the_server_costs_a_connection_and_no_more(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        transport: Any = bus.connection._client._transport
        transport.write(b"NO SUCH COMMAND\r\n")
        await until(lambda: bus.reconnects == 1)
        await answered(bus)
        await bus.close()

    asyncio.run(run())


def test_a_subject_that_the_server_refuses_costs_nothing_else(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        before = bus_metrics.errors._value.get()
        transport: Any = bus.connection._client._transport
        transport.write(b"SUB a..b 77\r\n")
        await until(lambda: bus_metrics.errors._value.get() == before + 1)
        with pytest.raises(Unavailable, match="could not be sent"):
            await bus.request("two words", b"", timeout_s=20)
        with pytest.raises(NoResponders):
            await bus.request("nobody", b"", timeout_s=20)
        assert bus.reconnects == 0
        await bus.close()

    asyncio.run(run())


def test_a_client_that_ended_itself_is_told_and_nobody_waits(server: NatsServer) -> None:
    lost: list[TidelogError] = []

    async def run() -> None:
        bus = await NatsBus.connect(server.url, on_lost=lost.append)
        server.kill()
        await until(lambda: not bus.connected)
        waits = asyncio.ensure_future(bus.request("echo", b"", timeout_s=30))
        await until(lambda: len(bus.connection.outbox) == 1)
        await bus.connection._client.close()
        async with asyncio.timeout(5):
            with pytest.raises(Unavailable, match="is closed"):
                await waits
        with pytest.raises(Unavailable):
            await bus.publish("x", b"")
        assert [type(one) for one in lost] == [Stopped]
        await bus.close()

    asyncio.run(run())
    assert len(lost) == 1, "to close it is nothing that was lost"


def test_a_read_that_is_cancelled_while_the_server_stands_still_leaves_no_subscription(
    server: NatsServer,
) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        client = bus.connection._client
        before = len(client._subs), len(client._sinks)
        server.pause()
        for _ in range(3):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.05):
                    await bus.read("S", start_seq=1)
        assert len(client._subs) > before[0]
        server.resume()
        await until(lambda: (len(client._subs), len(client._sinks)) == before)
        await bus.close()

    asyncio.run(run())


def test_a_subscription_at_a_server_that_stands_still_is_there_later(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "CLOSE_S", 0.1)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        server.pause()
        await bus.serve("echo", echo)
        server.resume()
        await answered(bus)
        assert bus.reconnects == 0
        server.kill()
        await until(lambda: not bus.connected)
        await bus.serve("late", echo)
        server.start()
        await answered(bus)
        assert (await bus.request("late", b"x", timeout_s=20)).data == b"x"
        await bus.close()

    asyncio.run(run())


def test_the_end_does_not_wait_for_a_server_that_stands_still(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever still waits is told, and what was not sent is counted in the log."""
    monkeypatch.setattr(connection, "CLOSE_S", 0.1)
    monkeypatch.setattr(nats_client, "END_S", 0.1)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        narrow(bus)
        server.pause()
        try:
            large = bytes(bus.max_payload)
            for _ in range(4):
                await bus.publish("x", large)
            waits = asyncio.ensure_future(bus.request("echo", b"", timeout_s=30))
            await until(lambda: len(bus.connection._waiting) == 1)
            with capture_logs() as logs:
                async with asyncio.timeout(20):
                    await bus.close()
                    with pytest.raises(Unavailable, match="is closed"):
                        await waits
        finally:
            server.resume()
        (told,) = [one for one in logs if "unsent" in one["event"]]
        assert told["count"] > 0

    asyncio.run(run())


@pytest.mark.parametrize("behind", [b"", b"PING\r\n"])
def test_a_server_that_dies_at_the_end_is_no_error(
    server: NatsServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    behind: bytes,
) -> None:
    """It stood still first. nats-py waits until it has taken the rest: `behind`, a command that was
    not even written, at another place."""
    monkeypatch.setattr(connection, "CLOSE_S", 0.1)
    monkeypatch.setattr(nats_client, "END_S", 20.0)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        client: Any = bus.connection._client
        narrow(bus)
        server.pause()
        large = bytes(bus.max_payload)
        for _ in range(4):
            await bus.publish("x", large)
        link = client._transport._io_writer.transport
        await until(lambda: link.get_write_buffer_size() > len(large) // 2)
        if behind:
            await client._send_command(behind)
        ending = asyncio.ensure_future(bus.close())
        await until(lambda: client.is_closed and not client._pending_data_size)
        assert not ending.done()
        server.kill()
        async with asyncio.timeout(10):
            await ending

    asyncio.run(run())
    gc.collect()
    assert not [one for one in caplog.records if "never retrieved" in one.message]


def test_who_publishes_waits_for_room_and_not_for_ever(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_bus, "TIMEOUT_S", 0.1)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        server.kill()
        await until(lambda: not bus.connected)
        large = bytes(bus.max_payload)
        for _ in range(8):
            await bus.publish("x", large)
        with pytest.raises(DeadlineExceeded, match="too much waits"):
            await bus.publish("x", b"")
        with pytest.raises(Unavailable):
            await bus.stream_state("S")
        server.start()
        await until(lambda: not len(bus.connection.outbox))
        await bus.publish("x", large)
        await bus.close()

    asyncio.run(run())


def test_answers_beyond_their_bound_are_dropped_and_counted(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who answers can't wait: its own requests would."""
    monkeypatch.setattr(real_bus, "HARD_BYTES", 1)

    async def run() -> None:
        bus, other = await NatsBus.connect(server.url), await NatsBus.connect(server.url)

        async def slow(request: Request) -> None:
            bus.connection.queue("filler", b"something")
            request.respond(b"")

        async def much(request: Request) -> None:
            request.respond(bytes(bus.max_payload + 1))

        await bus.serve("slow", slow)
        await bus.serve("much", much)
        before = bus_metrics.dropped_answers._value.get()

        def dropped() -> float:
            return float(bus_metrics.dropped_answers._value.get() - before)

        with pytest.raises(DeadlineExceeded):
            await other.request("slow", b"", timeout_s=1.0)
        await until(lambda: dropped() >= 1)
        answer = await other.request("much", b"", timeout_s=1.0)
        assert decode(answer.data, ErrorReply).code == "MessageTooLarge"
        assert dropped() == 2
        await other.close()
        await bus.close()

    asyncio.run(run())


def test_a_server_without_jetstream_says_so(tmp_path: Path) -> None:
    server = NatsServer(tmp_path)
    config = tmp_path / "nats.conf"
    config.write_text(config.read_text().partition("jetstream")[0])

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        for ask in (bus.stream_state("S"), bus.append("S", [Outgoing("s.x", b"")])):
            with pytest.raises(Unavailable, match="does not offer JetStream"):
                await ask
        await bus.close()

    server.start()
    try:
        asyncio.run(run())
    finally:
        server.kill()


def test_a_connection_that_is_no_tcp_is_closed() -> None:
    """nats-py's WebSocket has nothing that could be cut."""

    async def run() -> None:
        client = nats_client.SinkClient(lambda _: None, lambda _: None)
        transport = MagicMock()
        client._transport = transport
        client._connecting = asyncio.current_task()
        assert client.drop_attempt()
        transport.close.assert_called_once()
        assert client._transport is None

    asyncio.run(run())


def test_what_takes_a_message_and_raises_costs_that_message_and_no_more(
    server: NatsServer,
) -> None:
    def raises(*_: bytes) -> None:
        raise ValueError("planted")

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        before = bus_metrics.sink_errors._value.get()
        await bus.connection.subscribe("planted", "", raises)
        with capture_logs() as logs:
            await bus.publish("planted", b"x")
            await until(lambda: bus_metrics.sink_errors._value.get() == before + 1)
        assert [one["subject"] for one in logs if "raised" in one["event"]] == ["b'planted'"]
        await answered(bus)
        assert bus.reconnects == 0
        await bus.close()

    asyncio.run(run())


def test_a_client_that_is_closed_for_good_leaves_others_their_time(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls are tried again until they are given up."""
    monkeypatch.setattr(real_bus, "TIMEOUT_S", 1.0)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.connection._client.close()
        asked = asyncio.create_task(bus.stream_state("S"))
        turns = 0
        while not asked.done():
            turns += 1
            await asyncio.sleep(0.01)
        with pytest.raises(Unavailable):
            asked.result()
        assert turns > 10
        await bus.close()

    asyncio.run(run())
