"""Streams on a real server: atomic batches, fences, unknown outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conditions import until
from tests.servers import NatsServer, nats_server
from tidelog.errors import (
    BadInput,
    Conflict,
    DeadlineExceeded,
    MessageTooLarge,
    StreamMissing,
    Unavailable,
)
from tidelog.kv import Bucket
from tidelog.ports import Outgoing, StreamConfig
from tidelog.real import bus as real_bus
from tidelog.real import jetstream
from tidelog.real.bus import NatsBus

S = StreamConfig("S", ("s.>",))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


def some(count: int, size: int = 1) -> list[Outgoing]:
    return [Outgoing(f"s.{number}", bytes(size)) for number in range(count)]


def test_a_batch_is_all_or_nothing_behind_its_fence(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        with pytest.raises(StreamMissing):
            await bus.append("S", some(1))
        with pytest.raises(StreamMissing):
            await bus.append("S", some(2))
        assert await bus.stream_state("S") is None
        created = await bus.stream_create(S)
        assert (await bus.stream_create(S)).created == created.created
        assert await bus.append("S", some(1), expected_last_seq=0) == 1
        assert await bus.append("S", some(1000), expected_last_seq=1) == 1001
        for count in (1, 2, 1000):
            with pytest.raises(Conflict) as refused:
                await bus.append("S", some(count), expected_last_seq=1)
            assert refused.value.definite
        state = await bus.stream_state("S")
        assert state is not None
        assert (state.first_seq, state.last_seq, state.messages) == (1, 1001, 1001)
        for impossible in (0, 1001):
            with pytest.raises(BadInput):
                await bus.append("S", some(impossible))
        with pytest.raises(MessageTooLarge):
            await bus.append("S", [*some(2), Outgoing("s.x", bytes(bus.max_payload + 1))])
        with pytest.raises(Unavailable):
            await bus.append("S", [Outgoing("nobody.takes.this", b"")])
        await bus.close()

    asyncio.run(run())


def test_headers_and_the_last_message_come_from_the_leader(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        with pytest.raises(StreamMissing):
            await bus.last_message("S", "s.>")
        await bus.stream_create(S)
        assert await bus.last_message("S", "s.>") is None
        await bus.append("S", [Outgoing("s.a", b"1", {"K": "v"}), Outgoing("s.b", b"2")])
        last = await bus.last_message("S", "s.a")
        assert last is not None
        assert (last.subject, last.data, dict(last.headers), last.sequence) == (
            "s.a",
            b"1",
            {"K": "v"},
            1,
        )
        await bus.stream_delete("S")
        await bus.stream_delete("S")
        assert await bus.stream_state("S") is None
        await bus.close()

    asyncio.run(run())


def test_a_bucket_fences_by_revision(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        bucket = Bucket(bus, "B")
        await bucket.create()
        first = await bucket.put("k", b"1", expected=0)
        with pytest.raises(Conflict):
            await bucket.put("k", b"2", expected=0)
        second = await bucket.put("k", b"2", expected=first)
        await bucket.put("other", b"x")
        await bucket.delete("other")
        entries, _ = await bucket.entries()
        assert {key: (e.value, e.revision) for key, e in entries.items()} == {"k": (b"2", second)}
        await bus.close()

    asyncio.run(run())


def test_a_batch_of_64_mib_goes_in_windows(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        assert await bus.append("S", some(256, 256 << 10), timeout_s=60) == 256
        await bus.close()

    asyncio.run(run())


@pytest.mark.parametrize("window", [1, 1 << 20])
def test_a_batch_that_is_refused_at_its_first_message_is_told_so(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    """By a stream that somebody made without atomic batches; nobody waits for the rest."""
    monkeypatch.setattr(real_bus, "WINDOW_BYTES", window)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        body = jetstream.stream_body(S) | {"allow_atomic": False}
        jetstream.created_state(await bus.api("STREAM.CREATE.S", body))
        with pytest.raises(Unavailable, match="atomic publish is disabled"):
            await bus.append("S", some(3), timeout_s=20)
        assert not bus.connection._waiting
        assert await bus.append("S", some(1)) == 1
        await bus.close()

    asyncio.run(run())


async def fenced(bus: NatsBus) -> None:
    """What was unknown is settled by reading the tail, then fencing on it. A late message may come
    in between: then the fence refuses, and the tail is read again."""
    async with asyncio.timeout(10):
        while True:
            state = await bus.stream_state("S")
            assert state is not None
            try:
                last = await bus.append("S", some(2), expected_last_seq=state.last_seq)
            except Conflict:
                continue
            assert last == state.last_seq + 2
            return


def test_a_server_killed_between_publish_and_ack_leaves_nobody_waiting(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        for how, timeout_s in (("kill", 60.0), ("freeze", 2.0)):
            server.pause()
            appends = [
                asyncio.ensure_future(bus.append("S", some(1 + n % 3), timeout_s=timeout_s))
                for n in range(50)
            ]
            await until(lambda: not len(bus.connection.outbox))
            if how == "kill":
                server.kill()
            async with asyncio.timeout(20):
                results = await asyncio.gather(*appends, return_exceptions=True)
            wanted = Unavailable if how == "kill" else DeadlineExceeded
            assert {type(result) for result in results} == {wanted}
            assert not bus.connection._waiting
            if how == "kill":
                server.start()
            else:
                server.resume()
            await fenced(bus)
        await bus.close()

    asyncio.run(run())


def test_a_deleted_store_is_a_missing_stream(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        await bus.append("S", some(3))
        server.kill()
        server.wipe()
        server.start()
        assert await bus.stream_state("S") is None
        for count in (1, 3):
            with pytest.raises(StreamMissing):
                await bus.append("S", some(count), expected_last_seq=3)
        await bus.close()

    asyncio.run(run())
