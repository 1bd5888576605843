"""What each toxic does to bytes and connections, on an echo server."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest

from tests.conditions import until
from tests.faults import proxy as proxy_module
from tests.faults.proxy import HOST, Proxy, proxied
from tests.faults.toxics import CUTS, Kind, Met, Side, Toxic

BODY = bytes(range(256)) * 40


@contextlib.asynccontextmanager
async def echo() -> AsyncIterator[Proxy]:
    serving = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal serving
        serving += 1
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        serving -= 1

    server = await asyncio.start_server(serve, HOST, 0)
    async with proxied(int(server.sockets[0].getsockname()[1])) as proxy:
        yield proxy
    server.close()
    await until(lambda: serving == 0)


class Caller:
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    async def __aenter__(self) -> Caller:
        self._reader, self._writer = await asyncio.open_connection(HOST, self._proxy.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def ask(self, body: bytes = BODY) -> float:
        """Seconds until all of it is back. Raises OSError or EOFError when it is cut."""
        began = time.monotonic()
        self._writer.write(body)
        assert await self._reader.readexactly(len(body)) == body
        return time.monotonic() - began

    async def ask_for_ever(self) -> None:
        while True:
            await self.ask(b"a few bytes")


@pytest.mark.parametrize(
    ("toxic", "at_least_s"),
    [
        (Toxic(Kind.LATENCY, 0.1, jitter_s=0.01), 0.2),
        (Toxic(Kind.BANDWIDTH, 100e3), 0.1),
        (Toxic(Kind.SLICER, 100), 0.05),
    ],
)
def test_bytes_come_later_whole_and_in_order(toxic: Toxic, at_least_s: float) -> None:
    async def main() -> None:
        async with echo() as proxy, Caller(proxy) as caller:
            await caller.ask()
            proxy.poison(toxic)
            assert await caller.ask() >= at_least_s
            met = await proxy.heal()
            assert met == Met(bytes=2 * len(BODY), cuts=0)
            assert met.touched(toxic.kind)
            await caller.ask()
            assert proxy.carried == 6 * len(BODY)

    asyncio.run(main())


@pytest.mark.parametrize(
    "toxic",
    [
        Toxic(Kind.DOWN),
        Toxic(Kind.RESET_PEER, 0.05),
        Toxic(Kind.LIMIT_DATA, 3000),
        Toxic(Kind.SLOW_CLOSE, 0.2),
        Toxic(Kind.TIMEOUT),
    ],
    ids=lambda toxic: toxic.kind.value,
)
def test_a_connection_ends_and_the_next_one_works(toxic: Toxic) -> None:
    assert toxic.kind in CUTS

    async def main() -> None:
        async with echo() as proxy, Caller(proxy) as caller, Caller(proxy):
            await caller.ask()
            began = time.monotonic()
            proxy.poison(toxic)
            asking = asyncio.ensure_future(caller.ask_for_ever())
            if toxic.kind is Kind.TIMEOUT:
                await until(lambda: proxy.met.bytes > 0, 5)
            else:
                with pytest.raises((OSError, EOFError)):
                    await asking
            if toxic.kind in (Kind.SLOW_CLOSE, Kind.RESET_PEER):
                assert time.monotonic() - began >= toxic.amount
            if toxic.kind is Kind.DOWN:
                with pytest.raises(OSError, match="Connect call failed"):
                    await Caller(proxy).__aenter__()
            met = await proxy.heal()
            assert met.touched(toxic.kind)
            assert met.cuts == 1, "the other connection had carried nothing"
            if toxic.kind is Kind.TIMEOUT:
                with pytest.raises((OSError, EOFError)):
                    await asking
            async with Caller(proxy) as another:
                await another.ask()

    asyncio.run(main())


def test_the_other_way_is_unharmed(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: dict[Side, list[float]] = {Side.UP: [], Side.DOWN: []}

    class Watched(proxy_module.Link):
        def _delay_s(self, size: int, side: Side) -> float:
            delay_s = super()._delay_s(size, side)
            delays[side].append(delay_s)
            return delay_s

    monkeypatch.setattr(proxy_module, "Link", Watched)

    async def main() -> None:
        async with echo() as proxy, Caller(proxy) as caller:
            proxy.poison(Toxic(Kind.LATENCY, 0.2), Side.UP)
            assert await caller.ask() >= 0.2
            assert set(delays[Side.UP]) == {0.2}
            assert set(delays[Side.DOWN]) == {0.0}
            assert (await proxy.heal()).bytes == len(BODY)

    asyncio.run(main())


def test_a_toxic_that_nothing_meets_touched_nothing() -> None:
    async def main() -> None:
        async with echo() as proxy, Caller(proxy):
            for kind in Kind:
                proxy.poison(Toxic(kind, 0.01))
                assert not (await proxy.heal()).touched(kind)

    asyncio.run(main())
