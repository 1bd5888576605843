"""Reading a stream in order on a real server that restarts, loses its store, discards."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conditions import until
from tests.servers import NatsServer, nats_server
from tidelog.actor import Actor
from tidelog.errors import Purged, StreamMissing
from tidelog.ports import Message, Outgoing, StreamConfig, StreamReader
from tidelog.real.bus import NatsBus
from tidelog.supervisor import Supervisor

S = StreamConfig("S", ("s.>",))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as server:
        yield server


async def take(reader: StreamReader, count: int, deadline_s: float = 20.0) -> list[Message]:
    found: list[Message] = []
    async with asyncio.timeout(deadline_s):
        while len(found) < count:
            found += await reader.next_batch(count - len(found), 1.0)
    return found


def numbered(start: int, count: int, size: int = 0) -> list[Outgoing]:
    return [Outgoing("s.n", b"%d" % n + bytes(size)) for n in range(start, start + count)]


def test_no_gap_and_no_duplicate_over_five_restarts(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        writer = await NatsBus.connect(server.url)
        await writer.stream_create(S)
        reader = await bus.read("S", start_seq=1)
        found: list[int] = []
        written = 0
        for restart in range(6):
            for _ in range(10):
                written = await writer.append("S", numbered(written + 1, 100))
            # A part is read before the restart, the rest after it.
            found += [m.sequence for m in await take(reader, 1000 - 37 * restart)]
            if restart < 5:
                server.kill() if restart % 2 else server.stop()
                found += await drain(reader)
                server.start()
        found += [m.sequence for m in await take(reader, written - len(found))]
        assert found == list(range(1, written + 1))
        assert bus.reconnects == 5
        await reader.close()
        await bus.close()
        await writer.close()

    async def drain(reader: StreamReader) -> list[int]:
        rest: list[int] = []
        while batch := await reader.next_batch(1000, 0.05):
            rest += [m.sequence for m in batch]
        return rest

    asyncio.run(run())


def test_filters_and_starting_in_the_middle(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        await bus.append("S", [Outgoing(f"s.{n % 3}", b"%d" % n, {"N": str(n)}) for n in range(90)])
        reader = await bus.read("S", start_seq=10, subjects=("s.0", "s.2"))
        found = await take(reader, 54)
        assert [m.sequence for m in found] == [s for s in range(10, 91) if (s - 1) % 3 != 1]
        assert all(dict(m.headers) == {"N": m.data.decode()} for m in found)
        assert await reader.next_batch(10, 0.1) == []
        ahead = await bus.read("S", start_seq=95)
        await bus.append("S", numbered(0, 10))
        assert [m.sequence for m in await take(ahead, 6)] == list(range(95, 101))
        await reader.close()
        await ahead.close()
        await bus.close()

    asyncio.run(run())


def test_a_new_message_is_there_nearly_as_soon_as_it_is_acked(server: NatsServer) -> None:
    """By the time that appends take in this run: a reader that looked now and then would come far
    later."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        reader = await bus.read("S", start_seq=1)
        assert await reader.next_batch(1, 0.2) == []
        acked, arrived = [], []
        loop = asyncio.get_running_loop()
        for number in range(20):
            waits = asyncio.ensure_future(reader.next_batch(1, 5.0))
            await asyncio.sleep(0.01)
            began = loop.time()
            await bus.append("S", numbered(number, 1))
            acked.append(loop.time() - began)
            assert len(await waits) == 1
            arrived.append(loop.time() - began)
        assert sorted(arrived)[10] < 10 * sorted(acked)[10]
        await reader.close()
        await bus.close()

    asyncio.run(run())


def test_a_missing_wiped_or_new_stream_is_told(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        with pytest.raises(StreamMissing):
            await bus.read("S", start_seq=1)
        await bus.stream_create(S)
        await bus.append("S", numbered(0, 5))
        reader = await bus.read("S", start_seq=1)
        await take(reader, 5)
        await bus.stream_delete("S")
        with pytest.raises(StreamMissing):
            await take(reader, 1)
        await bus.stream_create(S)
        await bus.append("S", numbered(0, 9))
        with pytest.raises(StreamMissing):
            await take(reader, 1)
        fresh = await bus.read("S", start_seq=1)
        await take(fresh, 9)
        server.kill()
        server.wipe()
        server.start()
        with pytest.raises(StreamMissing):
            await take(fresh, 1)
        await bus.close()

    asyncio.run(run())


def test_a_store_that_was_rolled_back_is_told(server: NatsServer, tmp_path: Path) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        await bus.append("S", numbered(0, 5))
        server.stop()
        shutil.copytree(server.store, tmp_path / "copy")
        server.start()
        reader = await bus.read("S", start_seq=1)
        regrown = await bus.read("S", start_seq=1)
        await bus.append("S", numbered(5, 5))
        await take(reader, 10)
        await take(regrown, 10)
        server.stop()
        server.wipe()
        shutil.copytree(tmp_path / "copy", server.store)
        server.start()
        with pytest.raises(StreamMissing):
            await take(reader, 1)
        await bus.append("S", numbered(100, 20))
        with pytest.raises(StreamMissing):
            await take(regrown, 1)
        await bus.close()

    asyncio.run(run())


def test_discarded_messages_stop_the_reader(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(StreamConfig("S", ("s.>",), max_bytes=300_000))
        for start in range(0, 200, 50):
            await bus.append("S", numbered(start, 50, 10_000))
        state = await bus.stream_state("S")
        assert state is not None
        assert state.first_seq > 100
        for subjects in ((), ("s.n",)):
            reader = await bus.read("S", start_seq=1, subjects=subjects)
            with pytest.raises(Purged):
                await reader.next_batch(1, 5.0)
        good = await bus.read("S", start_seq=state.first_seq)
        count = state.last_seq - state.first_seq + 1
        assert [m.sequence for m in await take(good, count)][-1] == state.last_seq
        await bus.close()

    asyncio.run(run())


def test_discarding_overtakes_a_reader_with_a_full_buffer(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(StreamConfig("S", ("s.>",), max_bytes=8_000_000))
        reader = await bus.read("S", start_seq=1)
        await bus.append("S", numbered(0, 1))
        expected = (await take(reader, 1))[0].sequence
        for start in range(0, 300, 50):
            await bus.append("S", numbered(start, 50, 200_000))

        async def read_on() -> None:
            nonlocal expected
            async with asyncio.timeout(20):
                while True:
                    for message in await reader.next_batch(10, 1.0):
                        expected += 1
                        assert message.sequence == expected

        with pytest.raises(Purged):
            await read_on()
        assert expected < 301
        await bus.close()

    asyncio.run(run())


def test_a_reader_of_its_crashed_actor_is_closed(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(S)
        await bus.append("S", numbered(0, 5))
        lives: list[int] = []

        class Crashes(Actor[None]):
            tick_s = 0.01

            async def on_start(self) -> None:
                lives.append(1)
                self.reader = await bus.read("S", start_seq=1)
                await bus.serve("of.the.actor", self.handle)

            async def handle(self, request: object) -> None:
                raise AssertionError("nobody asks")

            async def on_tick(self) -> None:
                assert len(await self.reader.next_batch(5, 5.0)) == 5
                raise ValueError("a crash")

        supervisor = Supervisor("x")
        supervisor.actor("crashes", Crashes)
        with pytest.raises(ValueError, match="a crash"):
            await supervisor.run(asyncio.Event())
        assert len(lives) == 4
        await until(lambda: bus.served == [] and len(bus.connection._client._subs) == 1)
        await bus.close()

    asyncio.run(run())
