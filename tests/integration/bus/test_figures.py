"""Figures of the bus on this machine, printed (`pytest -s`); the bounds only catch a collapse.

Compare with what the stack can do on two cores: request/reply 3.3k/s one by one, 41k/s with 64 in
flight, batches of 500 at 44-49k messages/s, pull fetch 49k messages/s.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import NatsServer, nats_server
from tidelog.ports import Outgoing, Request, StreamConfig
from tidelog.real.bus import NatsBus


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(Path(tmp_path_factory.mktemp("figures"))) as server:
        yield server


def test_requests_per_second(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)

        async def echo(request: Request) -> None:
            request.respond(b"ok")

        async def ask(times: int) -> None:
            for _ in range(times):
                await bus.request("echo", bytes(1024), timeout_s=30)

        await bus.serve("echo", echo)
        for workers, times in ((1, 1000), (64, 200)):
            began = time.perf_counter()
            await asyncio.gather(*(ask(times) for _ in range(workers)))
            rate = workers * times / (time.perf_counter() - began)
            print(f"request/reply 1 KiB, {workers} in flight: {rate:,.0f}/s")
            assert rate > 300
        await bus.close()

    asyncio.run(run())


def test_messages_per_second(server: NatsServer) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url)
        await bus.stream_create(StreamConfig("F", ("f.>",)))
        began = time.perf_counter()
        for _ in range(40):
            last = await bus.append("F", [Outgoing("f.x", bytes(256))] * 500)
        rate = last / (time.perf_counter() - began)
        print(f"atomic batches of 500, 256 B, synced: {rate:,.0f} messages/s")
        assert rate > 4000
        reader = await bus.read("F", start_seq=1)
        read = 0
        began = time.perf_counter()
        while read < last:
            read += len(await reader.next_batch(1000, 10.0))
        rate = last / (time.perf_counter() - began)
        print(f"reading them: {rate:,.0f} messages/s")
        assert rate > 4000
        await reader.close()
        await bus.close()

    asyncio.run(run())
