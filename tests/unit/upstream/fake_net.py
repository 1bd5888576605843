"""A network of servers that answer bytes by bytes: called directly, on the loop's time, or served
by a gRPC server."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from tidelog.upstream.rpc import RpcFailed

Answer = Callable[[str, bytes], Awaitable[bytes]]
"""Of a method's name (the last part) and the request. Raises RpcFailed."""


class FakeNet:
    """`upstream.rpc.Rpc`. Those that are `down` refuse, those that are `silent` take what comes and
    say nothing until they are taken out again; what they say then comes late."""

    def __init__(self) -> None:
        self.servers: dict[str, Answer] = {}
        self.down: set[str] = set()
        self.silent: set[str] = set()
        self.calls: Counter[tuple[str, str]] = Counter()
        self.streams = 0

    async def call(self, address: str, method: str, request: bytes, *, timeout_s: float) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                return await self.answer(address, method, request)
        except TimeoutError:
            raise RpcFailed("no answer in time", status="DEADLINE_EXCEEDED") from None

    async def answer(self, address: str, method: str, request: bytes) -> bytes:
        name = method.rpartition("/")[2]
        self.calls[address, name] += 1
        await asyncio.sleep(0.001)
        if address in self.down or address not in self.servers:
            raise RpcFailed(f"{address} refuses connections")
        answer = await self.servers[address](name, request)
        while address in self.silent:  # noqa: ASYNC110 (a test changes the set at will)
            await asyncio.sleep(0.05)
        return answer

    def stream(self, address: str, method: str) -> FakeDuplex:
        self.streams += 1
        return FakeDuplex(self, address, method)

    async def close(self) -> None:
        pass


class FakeDuplex:
    """Every message sent is answered by one, in order."""

    def __init__(self, net: FakeNet, address: str, method: str) -> None:
        self._net, self._address, self._method = net, address, method
        self._answers: list[asyncio.Task[bytes]] = []
        self.closed = False

    async def send(self, message: bytes) -> None:
        assert not self.closed
        answer = self._net.answer(self._address, self._method, message)
        self._answers.append(asyncio.create_task(answer))

    async def receive(self) -> bytes:
        assert not self.closed
        return await asyncio.shield(self._take())

    async def _take(self) -> bytes:
        while not self._answers[0].done():
            await asyncio.wait([self._answers[0]])
        return self._answers.pop(0).result()

    def close(self) -> None:
        self.closed = True
        for answer in self._answers:
            answer.cancel()


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    def __init__(self, net: FakeNet, address: str, streams: frozenset[str]) -> None:
        self._net, self._address, self._streams = net, address, streams

    def service(self, details: Any) -> Any:
        method = details.method
        if method.rpartition("/")[2] in self._streams:

            async def stream(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
                async for request in requests:
                    yield await self._say(method, request, context)

            return grpc.stream_stream_rpc_method_handler(stream)

        async def unary(request: bytes, context: Any) -> bytes:
            return await self._say(method, request, context)

        return grpc.unary_unary_rpc_method_handler(unary)

    async def _say(self, method: str, request: bytes, context: Any) -> bytes:
        try:
            return await self._net.answer(self._address, method, request)
        except RpcFailed as error:
            await context.abort(grpc.StatusCode[error.status], error.message)
            raise


@asynccontextmanager
async def served(
    net: FakeNet, make: Callable[[str], Answer], tls: grpc.ServerCredentials | None = None
) -> AsyncIterator[str]:
    """A gRPC server at an address of its own, which answers as `make(address)` does."""
    server = grpc.aio.server()
    place = "127.0.0.1:0"
    port = server.add_secure_port(place, tls) if tls else server.add_insecure_port(place)
    address = f"127.0.0.1:{port}"
    net.servers[address] = make(address)
    server.add_generic_rpc_handlers((_Handlers(net, address, frozenset(["Tso"])),))
    await server.start()
    try:
        yield address
    finally:
        await server.stop(None)
