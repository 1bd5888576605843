"""`upstream.rpc.Rpc` over gRPC: a channel for each address, opened when it is first called."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import grpc.aio

from tidelog.actor import is_cancelled
from tidelog.errors import ConfigError
from tidelog.real.cancellable import cancellable
from tidelog.real.grpc_channel import RECONNECT, UNBOUNDED, open_channel
from tidelog.real.pem import read_pem
from tidelog.security.tls import TlsFiles
from tidelog.upstream.rpc import RpcFailed

MAX_CHANNELS = 256
"""One for each store of TiKV and each PD; of more, the one used longest ago is closed."""
OPTIONS = [
    *UNBOUNDED,
    *RECONNECT,
    # An address that nobody answers for any more is noticed while a stream waits on it.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 3_000),
]


class GrpcDuplex:
    """One call of `/service/Method` with a stream each way."""

    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        self._call = call

    async def send(self, message: bytes) -> None:
        """Raises RpcFailed."""
        with _failures(), cancellable():
            await self._call.write(message)

    async def receive(self) -> bytes:
        """Raises RpcFailed."""
        with _failures(), cancellable():
            message = await self._call.read()
        if not isinstance(message, bytes):
            raise RpcFailed("the other side ended the stream")
        return message

    def close(self) -> None:
        self._call.cancel()


class GrpcRpc:
    """Plain text, or TLS where `tls` has files."""

    def __init__(self, tls: TlsFiles | None = None) -> None:
        """Raises ConfigError where its files can't be used."""
        self._tls = tls or TlsFiles()
        read_pem(self._tls)
        self._channels: OrderedDict[str, grpc.aio.Channel] = OrderedDict()
        self._dropped: list[grpc.aio.Channel] = []

    async def call(self, address: str, method: str, request: bytes, *, timeout_s: float) -> bytes:
        """Raises RpcFailed."""
        invoke = self._channel(address).unary_unary(method, None, None)
        with _failures(), cancellable():
            answer: bytes = await invoke(request, timeout=timeout_s)
        await self._close_dropped()
        return answer

    def stream(self, address: str, method: str) -> GrpcDuplex:
        """Raises RpcFailed."""
        return GrpcDuplex(self._channel(address).stream_stream(method, None, None)(None))

    def _channel(self, address: str) -> grpc.aio.Channel:
        channel = self._channels.get(address)
        if channel is None:
            try:
                channel = self._channels[address] = open_channel(address, self._tls, OPTIONS)
            except ConfigError as error:
                # They could be read when we began: somebody renews them, one after the other.
                raise RpcFailed(error.message) from error
            while len(self._channels) > MAX_CHANNELS:
                self._dropped.append(self._channels.popitem(last=False)[1])
        self._channels.move_to_end(address)
        return channel

    async def _close_dropped(self) -> None:
        while self._dropped:
            await self._dropped.pop().close(grace=5.0)

    async def close(self) -> None:
        """Ends what is under way."""
        self._dropped += self._channels.values()
        self._channels.clear()
        while self._dropped:
            await self._dropped.pop().close(None)


@contextmanager
def _failures() -> Iterator[None]:
    """A channel that is closed cancels its calls, and nobody who waits for one."""
    try:
        yield
    except grpc.aio.AioRpcError as error:
        status = error.code().name
        raise RpcFailed(f"{error.details() or 'no answer'} ({status})", status=status) from error
    except asyncio.InvalidStateError as error:
        raise RpcFailed("the stream has ended") from error
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise RpcFailed("its channel was closed") from error
