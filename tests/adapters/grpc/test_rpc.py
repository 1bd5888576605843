"""GrpcRpc against servers: how a stream ends, how many channels are kept, whose name counts."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import cast

import grpc
import grpc.aio
import pytest

from tests.adapters.security.pki import HOST, Authority
from tests.conditions import until
from tests.unit.upstream.fake_net import FakeNet, served
from tidelog.config import ServiceConfig
from tidelog.errors import ConfigError
from tidelog.ports import Bus
from tidelog.real import grpc_channel, grpc_rpc
from tidelog.real.disk import RealDisk
from tidelog.real.grpc_rpc import GrpcDuplex, GrpcRpc
from tidelog.real.ports import real_ports
from tidelog.security.tls import TlsFiles
from tidelog.upstream.rpc import RpcFailed

CALL, STREAM = "/s.Service/Call", "/s.Service/Stream"


async def echo(request: bytes, _: object) -> bytes:
    return request


async def with_server(
    ask: Callable[[int], Awaitable[None]],
    handler: grpc.RpcMethodHandler[bytes, bytes],
    method: str,
    credentials: grpc.ServerCredentials | None = None,
) -> None:
    server = grpc.aio.server()
    methods = {method.rpartition("/")[2]: handler}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("s.Service", methods),))
    if credentials is None:
        port = server.add_insecure_port(f"{HOST}:0")
    else:
        port = server.add_secure_port(f"{HOST}:0", credentials)
    await server.start()
    try:
        async with asyncio.timeout(60):
            await ask(port)
    finally:
        await server.stop(None)


def test_a_stream_that_the_other_side_ended_is_told_whatever_is_tried() -> None:
    async def once(requests: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request
            return

    async def ask(port: int) -> None:
        rpc = GrpcRpc()
        duplex = rpc.stream(f"{HOST}:{port}", STREAM)
        await duplex.send(b"x")
        assert await duplex.receive() == b"x"
        with pytest.raises(RpcFailed, match="the other side ended the stream"):
            await duplex.receive()
        await until(duplex._call.done)
        with pytest.raises(RpcFailed, match="the stream has ended"):
            await duplex.send(b"y")
        duplex.close()
        await rpc.close()

    asyncio.run(with_server(ask, grpc.stream_stream_rpc_method_handler(once), STREAM))


def test_of_many_addresses_the_one_used_longest_ago_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stores come and go under new addresses for as long as a Pump runs."""
    monkeypatch.setattr(grpc_rpc, "MAX_CHANNELS", 2)

    async def main() -> None:
        net, rpc = FakeNet(), GrpcRpc()

        def make(address: str) -> Callable[[str, bytes], Awaitable[bytes]]:
            async def answer(_: str, request: bytes) -> bytes:
                return address.encode() + request

            return answer

        async with served(net, make) as a, served(net, make) as b, served(net, make) as c:
            for address in (a, b, a, c):
                answer = await rpc.call(address, CALL, b"!", timeout_s=20)
                assert answer == address.encode() + b"!"
            assert list(rpc._channels) == [a, c]
            assert rpc._dropped == []
            assert await rpc.call(b, CALL, b"?", timeout_s=20) == b.encode() + b"?"
            await rpc.close()
            assert not rpc._channels

    asyncio.run(main())


@pytest.mark.parametrize(("name", "reached"), [("pump", True), ("another", False)])
def test_a_server_is_known_by_its_name_wherever_it_is(
    tmp_path: Path, name: str, *, reached: bool
) -> None:
    """Its certificate has no address."""
    authority = Authority(tmp_path, "good")
    own = authority.issue("server", ["pump"])
    pem = (Path(own.key).read_bytes(), Path(own.cert).read_bytes())
    credentials = grpc.ssl_server_credentials([pem])

    async def ask(port: int) -> None:
        rpc = GrpcRpc(TlsFiles(ssl_ca=authority.ca, cert_allowed_cn=(name,)))
        try:
            assert await rpc.call(f"{HOST}:{port}", CALL, b"x", timeout_s=20) == b"x"
        finally:
            await rpc.close()

    whole = with_server(ask, grpc.unary_unary_rpc_method_handler(echo), CALL, credentials)
    if reached:
        asyncio.run(whole)
    else:
        with pytest.raises(RpcFailed):
            asyncio.run(whole)


def test_a_services_ports_have_one(tmp_path: Path) -> None:
    ports = real_ports(ServiceConfig(), RealDisk(tmp_path), cast(Bus, None))

    async def ask(port: int) -> None:
        rpc = ports.open_rpc(TlsFiles())
        assert await rpc.call(f"{HOST}:{port}", CALL, b"x", timeout_s=20) == b"x"
        await rpc.close()

    asyncio.run(with_server(ask, grpc.unary_unary_rpc_method_handler(echo), CALL))


def test_without_grpcio_it_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    grpc_channel.require_grpc()
    monkeypatch.setitem(sys.modules, "grpc.aio", None)
    with pytest.raises(ConfigError, match="grpcio is not installed") as caught:
        grpc_channel.require_grpc()
    assert "pip install" in caught.value.hint


class Stream:
    """One of gRPC's that is over in the moment that its reader is cancelled in."""

    async def read(self) -> bytes:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise asyncio.InvalidStateError

    async def write(self, _: bytes) -> None:
        await self.read()


@pytest.mark.parametrize("receives", [True, False])
def test_who_is_cancelled_as_the_stream_ends_is_cancelled(receives: bool) -> None:
    """It would ask for another stream, for ever."""

    async def main() -> None:
        duplex = GrpcDuplex(cast("grpc.aio.StreamStreamCall[bytes, bytes]", Stream()))
        waits = asyncio.create_task(duplex.receive() if receives else duplex.send(b"x"))
        await asyncio.sleep(0)
        waits.cancel()
        await asyncio.wait([waits])
        assert waits.cancelled()

    asyncio.run(main())


def test_a_stream_whose_channel_is_closed_is_told_and_its_reader_is_not_cancelled() -> None:
    async def silent(requests: AsyncIterator[bytes], _: object) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request

    async def ask(port: int) -> None:
        rpc = GrpcRpc()
        duplex = rpc.stream(f"{HOST}:{port}", STREAM)
        await duplex.send(b"x")
        assert await duplex.receive() == b"x"
        waits = asyncio.create_task(duplex.receive())
        await asyncio.sleep(0)
        await rpc.close()
        with pytest.raises(RpcFailed):
            await waits

    asyncio.run(with_server(ask, grpc.stream_stream_rpc_method_handler(silent), STREAM))
