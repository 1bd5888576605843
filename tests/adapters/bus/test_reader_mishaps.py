"""What a reader of a stream makes of losses on the way, silence, gaps, and ends at a bad moment."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conditions import until
from tests.servers import NatsServer, nats_server
from tidelog.actor import Actor
from tidelog.errors import BadInput, Purged, StreamMissing
from tidelog.ports import Message, Outgoing, StreamConfig
from tidelog.real import bus as real_bus
from tidelog.real import bus_metrics, stream_reader
from tidelog.real.bus import NatsBus
from tidelog.real.stream_reader import JetStreamReader
from tidelog.supervisor import Supervisor

S = StreamConfig("S", ("s.>",))
Arrival = tuple[bytes, bytes, bytes, bytes]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


async def opened(bus: NatsBus, *subjects: str) -> JetStreamReader:
    return cast(JetStreamReader, await bus.read("S", start_seq=1, subjects=subjects))


async def take(reader: JetStreamReader, count: int) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(20):
        while len(found) < count:
            found += await reader.next_batch(count - len(found), 1.0)
    return found


def some(subject: str, count: int) -> list[Outgoing]:
    return [Outgoing(subject, b"%d" % number) for number in range(count)]


def restarts(reason: str) -> float:
    return float(bus_metrics.reader_restarts.labels("S", reason)._value.get())


class Way:
    """What comes to a reader, in the hands of a test."""

    def __init__(self, bus: NatsBus, reader: JetStreamReader) -> None:
        self.seen: list[Arrival] = []
        self.lose: set[bytes] = set()
        """What is in messages that get lost, once each."""
        self.arrive = reader._on_message
        bus.connection._client._sinks[reader._number] = self._take

    def _take(self, *arrival: bytes) -> None:
        if arrival[0].startswith(b"s."):
            self.seen.append(cast(Arrival, arrival))
            if arrival[2] in self.lose:
                self.lose.discard(bytes(arrival[2]))
                return
        self.arrive(*arrival)


def test_what_is_lost_or_comes_again_on_the_way_is_read_once_and_in_order(
    server: NatsServer,
) -> None:
    lost = "a message was lost on the way"

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        reader = await opened(bus)
        way, before = Way(bus, reader), restarts(lost)
        way.lose = {b"3"}
        await bus.append("S", some("s.n", 10))
        found = await take(reader, 10)
        assert restarts(lost) - before == 1
        way.arrive(*way.seen[-1])
        way.arrive(*way.seen[0])  # of a consumer that is no more
        await bus.append("S", some("s.n", 10))
        found += await take(reader, 10)
        assert [one.sequence for one in found] == list(range(1, 21))
        assert restarts(lost) - before == 2
        await reader.close()
        await reader.close()
        way.arrive(*way.seen[-1])
        assert await reader.next_batch(1, 5) == []
        await bus.close()

    asyncio.run(run())


def test_more_than_one_request_brings_comes_without_a_new_consumer(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        reader = await opened(bus)
        made = reader._consumer
        for _ in range(5):
            await bus.append("S", some("s.n", 1000))
        found = await take(reader, 5000)
        assert [one.sequence for one in found] == list(range(1, 5001))
        assert reader._consumer == made
        await bus.close()

    asyncio.run(run())


def test_a_server_that_says_nothing_is_asked_anew(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("HEARTBEAT_S", 0.1), ("RETRY_S", 0.01)):
        monkeypatch.setattr(stream_reader, name, value)

    async def run() -> None:
        bus, writer = await NatsBus.connect(server.url), await NatsBus.connect(server.url)
        await bus.stream_create(S)
        reader, before = await opened(bus), restarts("silence")
        assert await reader.next_batch(1, 0.1) == []
        seen = reader._seen
        async with asyncio.timeout(20):
            while reader._seen == seen:
                assert await reader.next_batch(1, 0.1) == []
        assert restarts("silence") == before, "its heartbeats are heard"
        monkeypatch.setattr(stream_reader, "SILENCE_S", 1.0)
        monkeypatch.setattr(real_bus, "TIMEOUT_S", 0.2)
        server.pause()
        try:
            assert await reader.next_batch(1, 3.0) == []
        finally:
            server.resume()
        assert restarts("silence") > before
        await writer.append("S", some("s.n", 1), timeout_s=20)
        assert [one.sequence for one in await take(reader, 1)] == [1]
        assert bus.reconnects == 0
        for one in (bus, writer):
            await one.close()

    asyncio.run(run())


def short_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_reader, "EXPIRES_S", 0.3)
    monkeypatch.setattr(stream_reader, "HEARTBEAT_S", 0.1)


def test_what_was_discarded_and_not_wanted_is_no_gap(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader of a quiet table in a busy stream, which discards what is old."""
    short_requests(monkeypatch)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        reader = await opened(bus, "s.wanted")
        last = 0
        for _ in range(3):
            last = await bus.append("S", some("s.other", 10))
            async with asyncio.timeout(20):
                while reader._covered < last:
                    assert await reader.next_batch(1, 0.1) == []
        await bus.api("STREAM.PURGE.S", {"seq": last})
        await bus.append("S", some("s.wanted", 2))
        assert [one.sequence for one in await take(reader, 2)] == [last + 1, last + 2]
        await bus.close()

    asyncio.run(run())


def test_what_stands_before_a_gap_is_read_first(server: NatsServer) -> None:
    """And a stream that is gone meanwhile is told, whatever was received of it."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        mixed = [*some("s.wanted", 1), *some("s.other", 30), *some("s.wanted", 1)]
        await bus.append("S", mixed)
        purged, deleted = await opened(bus, "s.wanted"), await opened(bus, "s.wanted")
        await until(lambda: len(purged._buffer) == len(deleted._buffer) == 2)
        await bus.api("STREAM.PURGE.S", {"seq": 20})
        assert [one.sequence for one in await purged.next_batch(10, 20)] == [1]
        with pytest.raises(Purged, match="begins at 20, 2 is wanted"):
            await purged.next_batch(10, 20)
        await bus.stream_delete("S")
        with pytest.raises(StreamMissing):
            await deleted.next_batch(10, 20)
        await bus.close()

    asyncio.run(run())


def test_a_stream_deleted_between_two_requests_is_told(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_requests(monkeypatch)

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        reader = await opened(bus, "s.wanted")
        await until(lambda: not reader._pull_left)
        await bus.stream_delete("S")
        with pytest.raises(StreamMissing):
            await reader.next_batch(1, 20)
        await bus.close()

    asyncio.run(run())


def test_what_was_received_is_read_also_when_the_bus_is_closed(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        count = stream_reader.PULL_MESSAGES
        for _ in range(count // 1000):
            await bus.append("S", some("s.n", 1000))
        reader = await opened(bus)
        await until(lambda: len(reader._buffer) == count)
        await bus.append("S", some("s.n", 1))
        await until(lambda: len(reader._buffer) == count + 1)
        reader._pull_left = 0  # as after its last message
        await bus.close()
        assert len(await reader.next_batch(count + 1, 5)) == count + 1
        assert await reader.next_batch(1, 0.1) == []
        await reader.close()

    asyncio.run(run())


def test_a_reader_may_be_closed_while_the_client_ends_itself(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        reader = await opened(bus)
        ending = asyncio.ensure_future(bus.connection._client.close())
        await asyncio.sleep(0)
        assert bus.connected, "nobody was told yet"
        await reader.close()
        assert await reader.next_batch(1, 5) == []
        await ending
        await bus.close()

    asyncio.run(run())


def test_what_a_stream_can_not_be_is_refused(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        with pytest.raises(BadInput, match="can't be read so"):
            await opened(bus, "s.x", "s.>")
        with pytest.raises(BadInput, match="can't be created"):
            await bus.stream_create(StreamConfig("T", ("s.x",)))
        assert len(bus.connection._client._sinks) == 1, "its inbox alone"
        await bus.close()

    asyncio.run(run())


def test_a_reader_that_its_actor_closed_keeps_nothing_of_it(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        stop = asyncio.Event()

        class Reads(Actor[None]):
            async def on_start(self) -> None:
                reader = await opened(bus)
                await reader.close()
                guard = reader._guard
                assert guard is not None
                await asyncio.wait([guard])
                stop.set()

        supervisor = Supervisor("x")
        supervisor.actor("reads", Reads)
        await supervisor.run(stop)
        await until(lambda: len(bus.connection._client._sinks) == 1)
        await bus.close()

    asyncio.run(run())


def test_a_stored_subject_that_is_no_utf8_is_read_on_from(server: NatsServer) -> None:
    """Whatever is made of its name: read again after a loss, the stream is the same one."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        reader = await opened(bus)
        transport: Any = bus.connection._client._transport
        transport.write(b"PUB s.\xff 1\r\n0\r\n")
        (odd,) = await take(reader, 1)
        assert (odd.subject, odd.data) == ("s.\ufffd", b"0")
        reader._need("planted")
        await bus.append("S", some("s.a", 2))
        assert [one.data for one in await take(reader, 2)] == [b"0", b"1"]
        assert bus.reconnects == 0
        await reader.close()
        await bus.close()

    asyncio.run(run())
