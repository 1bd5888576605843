"""What every Rpc does (tidelog.upstream.rpc.Rpc): the fake one of tests, and gRPC to a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.servers import free_port
from tests.unit.upstream.fake_net import Answer, FakeNet, served
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.upstream.rpc import Rpc, RpcFailed

CALL, STREAM = "/s.Service/Call", "/s.Service/Tso"
Scenario = Callable[[Rpc, FakeNet, str], Awaitable[None]]


def server(_: str) -> Answer:
    async def answer(method: str, request: bytes) -> bytes:
        if request == b"bad":
            raise RpcFailed("no such thing", status="NOT_FOUND")
        return method.encode() + b":" + request

    return answer


@pytest.fixture(params=["fake", "grpc"])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], None]:
    """With a server at the address."""

    async def fake(scenario: Scenario) -> None:
        net = FakeNet()
        net.servers["a:1"] = server("a:1")
        await scenario(net, net, "a:1")

    async def real(scenario: Scenario) -> None:
        net, rpc = FakeNet(), GrpcRpc()
        async with served(net, server) as address, asyncio.timeout(60):
            try:
                await scenario(rpc, net, address)
            finally:
                await rpc.close()

    house = fake if request.param == "fake" else real
    return lambda scenario: asyncio.run(house(scenario))


def test_an_answer_or_the_servers_status(run: Callable[[Scenario], None]) -> None:
    async def scenario(rpc: Rpc, net: FakeNet, address: str) -> None:
        for _ in range(2):
            assert await rpc.call(address, CALL, b"x", timeout_s=20) == b"Call:x"
            with pytest.raises(RpcFailed, match="no such thing") as refused:
                await rpc.call(address, CALL, b"bad", timeout_s=20)
            assert refused.value.status == "NOT_FOUND"

    run(scenario)


def test_nobody_there_is_unavailable(run: Callable[[Scenario], None]) -> None:
    async def scenario(rpc: Rpc, net: FakeNet, address: str) -> None:
        with pytest.raises(RpcFailed) as refused:
            await rpc.call(f"127.0.0.1:{free_port()}", CALL, b"x", timeout_s=20)
        assert refused.value.status == "UNAVAILABLE"
        assert await rpc.call(address, CALL, b"x", timeout_s=20) == b"Call:x"

    run(scenario)


def test_a_server_that_says_nothing_is_waited_for_so_long_and_no_longer(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(rpc: Rpc, net: FakeNet, address: str) -> None:
        net.silent.add(address)
        with pytest.raises(RpcFailed) as late:
            await rpc.call(address, CALL, b"x", timeout_s=0.2)
        assert late.value.status == "DEADLINE_EXCEEDED"
        net.silent.clear()
        assert await rpc.call(address, CALL, b"y", timeout_s=20) == b"Call:y"

    run(scenario)


def test_a_streams_answers_come_in_order_and_its_error_ends_it(
    run: Callable[[Scenario], None],
) -> None:
    async def scenario(rpc: Rpc, net: FakeNet, address: str) -> None:
        duplex = rpc.stream(address, STREAM)
        for number in range(3):
            await duplex.send(b"%d" % number)
        assert [await duplex.receive() for _ in range(3)] == [b"Tso:0", b"Tso:1", b"Tso:2"]
        await duplex.send(b"bad")
        with pytest.raises(RpcFailed) as refused:
            await duplex.receive()
        assert refused.value.status == "NOT_FOUND"
        duplex.close()
        other = rpc.stream(address, STREAM)
        await other.send(b"x")
        assert await other.receive() == b"Tso:x"
        other.close()

    run(scenario)
