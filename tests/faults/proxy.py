"""A TCP port of 127.0.0.1 that leads to another one, over which toxics can be had.

async with proxied(server.port) as proxy:
    ... proxy.port ...
    proxy.poison(drawn(Kind.LATENCY, rng))
    met = await proxy.heal()
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from tests.faults.toxics import SLICE_PAUSE_S, Kind, Met, Side, Toxic

HOST = "127.0.0.1"
PORTS = (20_000, 32_000)
CHUNK = 1 << 16
CLOSE_S = 1.0
"""For what is still to be sent."""
WAITING = 256
"""Chunks that are on their way in one direction."""
RST = struct.pack("ii", 1, 0)
"""SO_LINGER: a close throws away what is unsent, and says so."""


class Proxy:
    """`carried`: bytes that came through, by any toxic or none; `sent_down`: those of them that the
    server sent."""

    def __init__(self, to_port: int, *, seed: int = 1) -> None:
        self.to_port = to_port
        self.port = 0
        self.carried = self.sent_down = 0
        self.toxic: Toxic | None = None
        self.side = Side.BOTH
        self.met = Met()
        self.rng = random.Random(seed)
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def listen(self) -> None:
        """On the same port again, once it has one: of those that no connection gets by itself."""
        while self._server is None:
            port = self.port or self.rng.randrange(*PORTS)
            try:
                self._server = await asyncio.start_server(self._accept, HOST, port)
            except OSError:
                if self.port:
                    raise
            else:
                self.port = port

    async def close(self) -> None:
        self._stop_listening()
        for link in list(self._links):
            link.cut(quietly=True)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    # Toxics ---------------------------------------------------------------------------------

    def poison(self, toxic: Toxic, side: Side = Side.BOTH) -> None:
        """From now on. Connections that are there meet it, too."""
        assert self.toxic is None
        self.toxic, self.side, self.met = toxic, side, Met()
        if toxic.kind is Kind.DOWN:
            self._stop_listening()
        for link in list(self._links):
            link.poisoned(toxic)

    async def heal(self) -> Met:
        """What the toxic did. Connections that it had silenced are closed: bytes are missing."""
        toxic, self.toxic = self.toxic, None
        if toxic is not None and toxic.kind is Kind.TIMEOUT:
            for link in list(self._links):
                link.cut_if_maimed()
        if self._server is None:
            await self.listen()
        return self.met

    # Connections ----------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far = await asyncio.open_connection(HOST, self.to_port)
        except OSError:
            writer.transport.abort()
            return
        link = Link(self, (reader, writer), far)
        self._links.add(link)
        if self.toxic is not None:
            link.poisoned(self.toxic)
        self.spawn(link.run())

    def ended(self, link: Link) -> None:
        self._links.discard(link)


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Link:
    """One connection, both ways."""

    def __init__(self, proxy: Proxy, near: Stream, far: Stream) -> None:
        self._proxy = proxy
        self._near, self._far = near, far
        self._carried = 0
        self._passed = 0
        """Under LIMIT_DATA."""
        self._maimed = False
        """Bytes of it were swallowed: it must not go on."""
        self._cut = False

    async def run(self) -> None:
        try:
            ways = (
                self._way(self._near[0], self._far[1], Side.UP),
                self._way(self._far[0], self._near[1], Side.DOWN),
            )
            tasks = [asyncio.ensure_future(way) for way in ways]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                toxic = self._proxy.toxic
                if toxic is not None and toxic.kind is Kind.SLOW_CLOSE and not self._cut:
                    self._count_cut()
                    await asyncio.sleep(toxic.amount)  # the toxic itself
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await self._close()

    async def _close(self) -> None:
        self._proxy.ended(self)
        for _, writer in (self._near, self._far):
            writer.close()
        for _, writer in (self._near, self._far):
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CLOSE_S):
                    await writer.wait_closed()

    async def _way(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: Side
    ) -> None:
        """What comes later under one toxic is never overtaken by what comes after it is gone."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING)

        async def give() -> None:
            while True:
                due, data = await waiting.get()
                if not data:
                    return
                if (early := due - loop.time()) > 0:
                    await asyncio.sleep(early)  # the toxic itself
                await self._give(writer, data, side)

        with contextlib.suppress(OSError):
            giving = asyncio.ensure_future(give())
            try:
                while not giving.done():
                    data = await reader.read(CHUNK)
                    await waiting.put((loop.time() + self._delay_s(len(data), side), data))
                    if not data:
                        await giving
            finally:
                giving.cancel()
                await asyncio.gather(giving, return_exceptions=True)

    def _on(self, side: Side) -> Toxic | None:
        return self._proxy.toxic if side & self._proxy.side else None

    def _delay_s(self, size: int, side: Side) -> float:
        toxic = self._on(side)
        if toxic is None or toxic.kind is not Kind.LATENCY:
            return 0.0
        self._proxy.met.bytes += size
        return toxic.amount + self._proxy.rng.random() * toxic.jitter_s

    async def _give(self, writer: asyncio.StreamWriter, data: bytes, side: Side) -> None:
        at = 0
        while at < len(data):
            toxic = self._on(side)
            kind = None if toxic is None else toxic.kind
            if self._maimed or kind is Kind.TIMEOUT:
                self._proxy.met.bytes += len(data) - at
                self._maimed = True
                return
            size, pause_s = self._portion(toxic, len(data) - at)
            writer.write(data[at : at + size])
            await writer.drain()
            at += size
            self._count(size, side)
            if kind in (Kind.BANDWIDTH, Kind.SLICER, Kind.LIMIT_DATA):
                self._proxy.met.bytes += size
            if kind is Kind.LIMIT_DATA and toxic is not None:
                self._passed += size
                if self._passed >= toxic.amount:
                    self.cut()
            if pause_s:
                await asyncio.sleep(pause_s)  # the toxic itself

    def _portion(self, toxic: Toxic | None, size: int) -> tuple[int, float]:
        """How much of it goes now, and how long nothing goes then."""
        match toxic:
            case Toxic(Kind.BANDWIDTH, rate):
                size = min(size, max(1, int(rate / 20)))
                return size, size / rate
            case Toxic(Kind.SLICER, mean):
                return min(size, self._proxy.rng.randint(1, int(2 * mean))), SLICE_PAUSE_S
            case Toxic(Kind.LIMIT_DATA, limit):
                return min(size, max(1, int(limit) - self._passed)), 0.0
        return size, 0.0

    def _count(self, size: int, side: Side) -> None:
        self._carried += size
        self._proxy.carried += size
        if side is Side.DOWN:
            self._proxy.sent_down += size

    # Ends -----------------------------------------------------------------------------------

    def poisoned(self, toxic: Toxic) -> None:
        self._passed = 0
        match toxic.kind:
            case Kind.DOWN:
                self.cut()
            case Kind.RESET_PEER:
                self._proxy.spawn(self._reset(toxic))
            case Kind.SLOW_CLOSE if self._carried:
                self._maimed = True
                self._far[1].transport.abort()

    async def _reset(self, toxic: Toxic) -> None:
        await asyncio.sleep(toxic.amount)  # the toxic itself
        if self._proxy.toxic is toxic:
            self.cut()

    def cut_if_maimed(self) -> None:
        if self._maimed:
            self.cut()

    def cut(self, *, quietly: bool = False) -> None:
        """By RST."""
        if not quietly:
            self._count_cut()
        self._cut = True
        for _, writer in (self._near, self._far):
            raw = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
            writer.transport.abort()

    def _count_cut(self) -> None:
        if self._carried and not self._cut:
            self._proxy.met.cuts += 1


@contextlib.asynccontextmanager
async def proxied(to_port: int, *, seed: int = 1) -> AsyncIterator[Proxy]:
    """A proxy that listens."""
    proxy = Proxy(to_port, seed=seed)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
