"""Core messages on a real server: answers, errors, order, bounds."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.bus.serving import cancelled, echo
from tests.conditions import until
from tests.servers import NatsServer, nats_server
from tidelog.errors import (
    BadInput,
    DeadlineExceeded,
    MessageTooLarge,
    NoResponders,
    TidelogError,
    Unavailable,
)
from tidelog.messages import Empty, decode_reply
from tidelog.ports import Request
from tidelog.real import bus_metrics, bus_serve
from tidelog.real.bus import NatsBus


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


def test_answers_and_typed_errors(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)

        async def echo(request: Request) -> None:
            request.respond(request.data, {"X-Was": request.headers.get("X-Is", "")})
            request.respond(b"a second answer is not sent")

        async def silent(request: Request) -> None:
            assert request.wants_reply

        await bus.serve("echo", echo)
        await bus.serve("silent", silent)
        answer = await bus.request("echo", b"hello", timeout_s=5, headers={"X-Is": "é: x"})
        assert (answer.data, answer.headers) == (b"hello", {"X-Was": "é: x"})
        with pytest.raises(NoResponders) as nobody:
            await bus.request("nobody", b"", timeout_s=5)
        assert nobody.value.definite
        with pytest.raises(DeadlineExceeded) as late:
            await bus.request("silent", b"", timeout_s=0.1)
        assert not late.value.definite
        with pytest.raises(MessageTooLarge):
            await bus.request("echo", bytes(bus.max_payload + 1), timeout_s=5)
        with pytest.raises(MessageTooLarge):
            await bus.request("echo", bytes(bus.max_payload), timeout_s=5, headers={"X": "y"})
        assert (await bus.request("echo", b"still here", timeout_s=5)).data == b"still here"
        assert bus.reconnects == 0
        await bus.close()
        with pytest.raises(Unavailable):
            await bus.request("echo", b"", timeout_s=5)

    asyncio.run(run())


def test_an_answer_goes_to_an_inbox_and_nowhere_else(server: NatsServer) -> None:
    """Else who may ask anything could have us say it to whom only we may speak."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        heard: list[tuple[str, bytes]] = []

        async def echo(request: Request) -> None:
            request.respond(request.data)

        async def hear(message: Request) -> None:
            heard.append((message.subject, message.data))

        await bus.serve("echo", echo)
        for subject in ("changes.main.txn", "_INBOX.x", "_INBOX_UKEY.x"):
            await bus.serve(subject, hear)
        before = bus_metrics.dropped_answers._value.get()
        for reply in ("changes.main.txn", "_INBOX.x", "_INBOX_UKEY.x", "_INBOXES"):
            bus.connection.queue("echo", b"hi", reply=reply)
        await until(lambda: len(heard) == 2)
        assert (await bus.request("echo", b"still here", timeout_s=5)).data == b"still here"
        assert heard == [(to, b"hi") for to in ("_INBOX.x", "_INBOX_UKEY.x")]
        assert bus_metrics.dropped_answers._value.get() - before == 2
        await bus.close()

    asyncio.run(run())


def test_no_server_is_unavailable() -> None:
    async def run() -> None:
        with pytest.raises(Unavailable):
            await NatsBus.connect("nats://127.0.0.1:1", timeout_s=0.3)

    asyncio.run(run())


def test_a_handler_gets_requests_in_order_one_at_a_time(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        seen: list[int] = []
        running = 0

        async def slow(request: Request) -> None:
            nonlocal running
            running += 1
            assert running == 1
            await asyncio.sleep(0)
            seen.append(int(request.data))
            running -= 1

        subscription = await bus.serve("numbers", slow)
        for number in range(500):
            await bus.publish("numbers", b"%d" % number)
        await until(lambda: len(seen) == 500)
        assert seen == list(range(500))
        await subscription.close()
        with pytest.raises(NoResponders):
            await bus.request("numbers", b"0", timeout_s=5)
        await bus.close()

    asyncio.run(run())


def test_no_handler_is_called_after_the_close_though_one_loses_its_cancellation(
    server: NatsServer,
) -> None:
    """As `asyncio.wait_for` does before Python 3.12."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        seen: list[bytes] = []

        async def deaf(request: Request) -> None:
            seen.append(request.data)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

        before = asyncio.all_tasks()
        subscription = await bus.serve("numbers", deaf)
        serving = asyncio.all_tasks() - before
        for number in range(3):
            await bus.publish("numbers", b"%d" % number)
        await until(lambda: bool(seen))
        await subscription.close()
        assert seen == [b"0"]
        assert serving
        assert all(task.done() for task in serving)
        await bus.close()

    asyncio.run(run())


def test_a_slow_handler_is_bounded_and_what_it_loses_is_counted(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bus_serve, "PENDING_COUNT", 10)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        gate = asyncio.Event()
        seen: list[bytes] = []

        async def stuck(request: Request) -> None:
            await gate.wait()
            seen.append(request.data)

        await bus.serve("slow", stuck)
        dropped = bus_metrics.dropped_requests.labels("slow")
        before = dropped._value.get()
        for number in range(100):
            await bus.publish("slow", b"%d" % number)
        # Core order: when the last answer is here, everything before it has arrived.
        with pytest.raises(NoResponders):
            await bus.request("nobody", b"", timeout_s=5)
        gate.set()
        await until(lambda: len(seen) + dropped._value.get() - before == 100)
        assert 10 <= len(seen) <= 11
        assert seen[:10] == [b"%d" % number for number in range(10)]
        await bus.close()

    asyncio.run(run())


def test_a_handler_that_raises_serves_on(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        errors: list[Exception] = [BadInput("no"), ValueError("a bug")]

        async def failing(request: Request) -> None:
            if errors:
                raise errors.pop()
            request.respond(b"fine")

        await bus.serve("failing", failing)
        with pytest.raises(DeadlineExceeded):
            await bus.request("failing", b"", timeout_s=0.1)
        refused = await bus.request("failing", b"", timeout_s=5)
        with pytest.raises(BadInput, match="no"):
            decode_reply(refused.data, Empty)
        assert (await bus.request("failing", b"", timeout_s=5)).data == b"fine"
        await bus.close()

    asyncio.run(run())


def test_a_dead_server_fails_who_waits_and_serving_goes_on_after_it(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        other = await NatsBus.connect(server.url)

        async def silent(request: Request) -> None:
            if request.data == b"answer":
                request.respond(b"yes")

        await other.serve("silent", silent)
        asked = [asyncio.ensure_future(bus.request("silent", b"", timeout_s=30)) for _ in range(50)]
        # All are on the server's side once an answer to a later request is here.
        assert (await bus.request("silent", b"answer", timeout_s=5)).data == b"yes"
        server.kill()
        async with asyncio.timeout(5):
            results = await asyncio.gather(*asked, return_exceptions=True)
        assert {type(result) for result in results} == {Unavailable}
        with pytest.raises(Unavailable) as unsent:
            await bus.request("silent", b"answer", timeout_s=0.2)
        assert isinstance(unsent.value, TidelogError)
        waits = asyncio.ensure_future(bus.request("silent", b"answer", timeout_s=20))
        server.start()
        await until(lambda: bus.connected and other.connected)
        async with asyncio.timeout(20):
            # The server may hear the request before the other client's subscription.
            try:
                assert (await waits).data == b"yes"
            except NoResponders:
                assert (await bus.request("silent", b"answer", timeout_s=5)).data == b"yes"
        await bus.close()
        await other.close()

    asyncio.run(run())


def test_cancelling_a_caller_is_never_swallowed(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        server.pause()
        try:
            big = bytes(bus.max_payload // 2)
            tasks = [
                asyncio.ensure_future(bus.request("nobody", big, timeout_s=30)) for _ in range(60)
            ]
            await until(lambda: bus.connection.outbox.bytes >= 8 << 20)
            for task in tasks:
                task.cancel()
            async with asyncio.timeout(5):
                results = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(result) for result in results} == {asyncio.CancelledError}
        finally:
            server.resume()
        with pytest.raises(NoResponders):
            await bus.request("nobody", b"", timeout_s=10)
        assert not bus.connection._waiting
        await bus.close()

    asyncio.run(run())


def test_a_reply_subject_that_is_no_utf8_costs_its_request_and_no_more(server: NatsServer) -> None:
    """nats-server passes it on."""
    dropped = bus_metrics.dropped_requests.labels("echo")._value

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.serve("echo", echo)
        before = dropped.get()
        raw = await NatsBus.connect(server.url)
        transport: Any = raw.connection._client._transport
        for _ in range(3):
            transport.write(b"PUB echo _INBOX.\xff 2\r\n{}\r\n")
        await until(lambda: dropped.get() == before + 3)
        assert (await bus.request("echo", b"x", timeout_s=20)).data == b"x"
        assert (bus.reconnects, raw.reconnects) == (0, 0)
        await raw.close()
        await bus.close()

    asyncio.run(run())


def test_requests_that_are_dropped_take_no_room_of_others() -> None:
    answered: list[str] = []

    async def run() -> None:
        served = bus_serve.ServedSubject(
            "x", echo, lambda reply, *_: answered.append(reply), lambda _: None
        )
        for _ in range(3):
            served.on_message(b"x", b"_INBOX.\xff", bytes(bus_serve.PENDING_BYTES // 2), b"")
        for number in range(5):
            served.on_message(b"x", b"_INBOX.%d" % number, b"{}", b"")
        task = asyncio.get_running_loop().create_task(served.run())
        await until(lambda: len(answered) == 5)
        await cancelled(task)

    asyncio.run(run())
