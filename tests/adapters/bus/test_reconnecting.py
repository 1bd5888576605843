"""A connection that is lost is made again, whatever nats-py's client meets on the way."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from nats import errors
from structlog.testing import capture_logs

from tests.adapters.bus.serving import answered, cancelled, echo, narrow
from tests.adapters.security.pki import Authority
from tests.conditions import until
from tests.servers import NatsServer, nats_server
from tidelog.errors import Stopped, TidelogError, Unavailable
from tidelog.real import connection, nats_client
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


def test_a_task_of_the_client_that_died_is_made_up_for(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else would ever tell: it goes on to say that it is connected, or reconnecting."""
    monkeypatch.setattr(connection, "WATCH_S", 0.05)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        client = bus.connection._client
        await bus.serve("echo", echo)
        await cancelled(client._reading_task)
        await until(lambda: bus.reconnects == 1)
        await answered(bus)
        server.kill()
        await until(lambda: client.is_reconnecting)
        await cancelled(client._reconnection_task)
        server.start()
        await until(lambda: bus.reconnects == 2)
        await answered(bus)
        await bus.close()

    asyncio.run(run())


async def restarted(server: NatsServer, bus: NatsBus) -> None:
    """And the loss is told before it is there again."""
    server.kill()
    await until(lambda: not bus.connected)
    server.start()


def held_while_connecting(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[Any], Coroutine[Any, Any, None]]
) -> None:
    """`meanwhile` happens to a client once, between its next connection's first words."""
    go_on, happened = nats_client.SinkClient._process_info, False

    async def process_info(client: Any, *words: Any, **more: Any) -> None:
        nonlocal happened
        if not happened:
            happened = True
            await asyncio.create_task(meanwhile(client))
        await go_on(client, *words, **more)

    monkeypatch.setattr(nats_client.SinkClient, "_process_info", process_info)


@pytest.mark.parametrize("before", [True, False])
def test_a_connection_that_is_reset_between_its_first_words_is_made_again(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    """The first, and a later one. On the loop that services have, whose word for it is its own."""
    monkeypatch.setattr(connection, "WATCH_S", 3600.0)

    async def reset(client: Any) -> None:
        client._transport._io_writer.transport.abort()
        await until(client._transport.at_eof)

    async def run() -> None:
        if before:
            held_while_connecting(monkeypatch, reset)
        bus = await NatsBus.connect(server.url, timeout_s=20)
        await bus.serve("echo", echo)
        if not before:
            held_while_connecting(monkeypatch, reset)
            await restarted(server, bus)
        await answered(bus)
        await bus.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


@pytest.mark.parametrize("error", [ValueError("half a line"), AttributeError("is_closing")])
def test_first_words_that_nobody_understands_are_an_attempt_that_failed(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(connection, "WATCH_S", 3600.0)

    async def fails(_: Any) -> None:
        raise error

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        held_while_connecting(monkeypatch, fails)
        await restarted(server, bus)
        await answered(bus)
        await bus.close()

    asyncio.run(run())


@pytest.mark.parametrize("error", [TimeoutError(), errors.Error("Authorization Violation")])
def test_a_late_error_of_the_lost_connection_does_not_end_the_new_one(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Nor does it say that the server refuses who connects."""
    monkeypatch.setattr(connection, "WATCH_S", 3600.0)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        late = bus.connection._on_error
        held_while_connecting(monkeypatch, lambda _: late(error))
        await restarted(server, bus)
        await answered(bus)
        await bus.close()

    asyncio.run(run())


def test_a_reconnection_that_dies_between_its_words_is_begun_anew(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what somebody meets who still writes to the lost one ends nothing."""
    monkeypatch.setattr(connection, "WATCH_S", 0.05)

    async def dies(_: Any) -> None:
        raise AssertionError("of nats-py")

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        client: Any = bus.connection._client
        go_on, cancellations = client._select_next_server, []

        async def select() -> None:
            await client._process_op_err(errors.StaleConnectionError())
            task = asyncio.current_task()
            cancellations.append(task.cancelling() if task else 1)
            await go_on()

        held_while_connecting(monkeypatch, dies)
        monkeypatch.setattr(client, "_select_next_server", select)
        await restarted(server, bus)
        with capture_logs() as logs:
            await answered(bus)
        assert len(cancellations) > 1
        assert not any(cancellations)
        assert [one["error"] for one in logs if "broke off" in one["event"]] == [
            repr(AssertionError("of nats-py"))
        ]
        await bus.close()

    asyncio.run(run())


def test_a_new_connection_that_takes_nothing_is_an_attempt_that_failed(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "WATCH_S", 3600.0)
    go_on, refused = nats_client.SinkClient._process_connect_init, False

    async def connect(client: Any) -> None:
        nonlocal refused
        await go_on(client)
        if not refused:
            refused = True
            await cancelled(client._flusher_task)
            client._pending, client._pending_data_size = [b"PING\r\n"], 6
            transport = client._transport

            def write(_: object) -> None:
                del transport.writelines
                raise RuntimeError("the handler is closed")

            transport.writelines = write

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        monkeypatch.setattr(nats_client.SinkClient, "_process_connect_init", connect)
        await restarted(server, bus)
        await answered(bus)
        assert refused
        assert bus.reconnects == 1
        await bus.close()

    asyncio.run(run())


def test_who_writes_to_a_connection_that_is_gone_lives_on(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anybody has told it, and after nats-py's own writer died of it."""
    monkeypatch.setattr(connection, "WATCH_S", 3600.0)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        client: Any = bus.connection._client
        await cancelled(client._flusher_task)
        bus.connection.queue("lost", b"")
        client._transport._io_writer.transport.abort()
        await until(lambda: bus.reconnects == 1)
        await answered(bus)
        await bus.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


def test_a_writer_that_dies_of_something_unforeseen_is_told(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[TidelogError] = []

    async def run() -> None:
        bus = await NatsBus.connect(server.url, on_lost=lost.append)

        async def dies(*_: object) -> None:
            raise AssertionError("of nats-py")

        monkeypatch.setattr(bus.connection._client, "publish", dies)
        bus.connection.queue("x", b"")
        await until(lambda: bool(lost))
        await bus.close()

    asyncio.run(run())
    (one,) = lost
    assert isinstance(one, Stopped)
    assert "bus-send" in str(one)


def test_a_server_that_stands_still_is_told_at_once(server: NatsServer) -> None:
    """nats-py would wait until it has taken the rest, and call the connection up."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        client: Any = bus.connection._client
        narrow(bus)
        server.pause()
        try:
            large = bytes(bus.max_payload)
            for _ in range(4):
                await bus.publish("x", large)
            link = client._transport._io_writer.transport
            await until(lambda: link.get_write_buffer_size() > 0)
            waits = asyncio.ensure_future(bus.request("echo", b"", timeout_s=60))
            await client._process_op_err(errors.StaleConnectionError())
            await until(lambda: not bus.connected)
        finally:
            server.resume()
        await asyncio.wait([waits])
        await answered(bus)
        await bus.close()

    asyncio.run(run())


def test_half_a_message_of_a_connection_that_failed_is_not_completed_by_the_next(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its tasks end: one that pings, or reads, would speak of the next."""
    taken: list[bytes] = []

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        client: Any = bus.connection._client
        tasks: list[asyncio.Task[None]] = []
        number = await client.subscribe_sink("news", "", lambda *message: taken.append(message[2]))
        go_on, failed = client.flush, False

        async def flush(*words: Any) -> None:
            nonlocal failed
            if not failed and asyncio.current_task() is client._reconnection_task:
                failed = True
                tasks.extend([client._reading_task, client._ping_interval_task])
                tasks.append(client._flusher_task)
                await client._ps.parse(b"MSG news %d 20\r\nhalf" % number)
                raise errors.FlushTimeoutError
            await go_on(*words)

        monkeypatch.setattr(client, "flush", flush)
        await restarted(server, bus)
        await answered(bus)
        assert all(task.done() for task in tasks)
        await bus.publish("news", b"whole")
        await until(lambda: bool(taken))
        await bus.close()

    asyncio.run(run())
    assert taken == [b"whole"]


def test_who_wants_to_be_sure_and_meets_a_dead_handle_hears_of_the_loss(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It subscribes all the same: the next connection knows of it."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        client: Any = bus.connection._client

        async def send_ping(*_: object) -> None:
            raise RuntimeError("the handler is closed")

        with monkeypatch.context() as gone:
            gone.setattr(client, "_send_ping", send_ping)
            await bus.serve("echo", echo)
        await client._process_op_err(errors.StaleConnectionError())
        await answered(bus)
        await bus.close()

    asyncio.run(run())


def test_the_end_meets_a_dead_handle_and_ends(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        client: Any = bus.connection._client

        def write(_: object) -> None:
            raise RuntimeError("the handler is closed")

        await cancelled(client._flusher_task)
        client._pending, client._pending_data_size = [b"PING\r\n"], 6
        monkeypatch.setattr(client._transport, "writelines", write)
        await bus.connection.close()
        assert client.is_closed

    asyncio.run(run())


def test_a_server_that_stands_still_in_a_handshake_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_client, "END_S", 0.1)
    info = {"server_id": "x", "version": "2.12.3", "max_payload": 1 << 20, "tls_required": True}
    authority = Authority(tmp_path, "good")

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO " + json.dumps(info).encode() + b"\r\n")
        await reader.read()
        writer.close()

    async def run() -> None:
        serving = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = serving.sockets[0].getsockname()[1]
        access = NatsAccess(nats_ca=authority.ca)
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable):
                await NatsBus.connect(f"nats://127.0.0.1:{port}", timeout_s=0.5, access=access)
        serving.close()

    asyncio.run(run())
