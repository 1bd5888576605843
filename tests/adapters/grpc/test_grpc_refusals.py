"""What a gRPC server says that is not our Pump's word: it must not be taken for a final refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import grpc
import grpc.aio
import pytest

from tidelog.errors import BadInput, MessageTooLarge, NoResponders, TidelogError, Unavailable
from tidelog.pump_client.delivery.grpc_way import GrpcWay
from tidelog.pump_client.errors import NotSent
from tidelog_proto.pump_pb2 import WriteBinlogResp

Handler = Callable[[bytes, "grpc.aio.ServicerContext[bytes, bytes]"], Awaitable[bytes]]
ANSWER_S = 30.0


async def asked(
    handler: Handler, ask: Callable[[GrpcWay], Awaitable[None]], *, method: str, calls: int
) -> None:
    server = grpc.aio.server(maximum_concurrent_rpcs=calls)
    methods = {method: grpc.unary_unary_rpc_method_handler(handler)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("binlog.Pump", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    way = GrpcWay("p1", lambda: f"127.0.0.1:{port}", 0)
    try:
        await ask(way)
    finally:
        await way.close()
        await server.stop(0)


async def acks(_request: bytes, _context: object) -> bytes:
    return WriteBinlogResp().SerializeToString()


async def refusal_of(way: GrpcWay, payload: bytes) -> TidelogError:
    """Why a binlog was not acked."""
    (refusal,) = await way.write([payload], ANSWER_S)
    assert refusal is not None
    return refusal


def test_a_server_with_too_many_calls_is_asked_again() -> None:
    """gRPC's own refusal at `maximum_concurrent_rpcs`: a Commit that meets it is not given up."""

    async def main() -> None:
        entered, leave = asyncio.Event(), asyncio.Event()

        async def slow(request: bytes, context: object) -> bytes:
            entered.set()
            await leave.wait()
            return await acks(request, context)

        async def ask(way: GrpcWay) -> None:
            async with asyncio.TaskGroup() as group:
                first = group.create_task(way.write([b"first"], ANSWER_S))
                await entered.wait()
                refusal = await refusal_of(way, b"second")
                leave.set()
                assert await first == [None]
            assert not isinstance(refusal, BadInput), refusal

        await asked(slow, ask, method="WriteBinlog", calls=1)

    asyncio.run(main())


def test_a_payload_above_the_servers_limit_is_too_large() -> None:
    async def main() -> None:
        async def ask(way: GrpcWay) -> None:
            assert isinstance(await refusal_of(way, bytes(5 << 20)), MessageTooLarge)

        await asked(acks, ask, method="WriteBinlog", calls=8)

    asyncio.run(main())


def test_an_address_where_no_pump_is_any_more_reached_nobody() -> None:
    """Another service took the port of a Pump that moved."""

    async def main() -> None:
        async def ask(way: GrpcWay) -> None:
            assert isinstance(await refusal_of(way, b"binlog"), NoResponders)

        await asked(acks, ask, method="Another", calls=8)

    asyncio.run(main())


def test_an_answer_that_is_none_of_a_pump_leaves_it_unknown() -> None:
    """Neither garbage nor a message of an error is an ack."""

    async def main() -> None:
        async def garbage(_request: bytes, _context: object) -> bytes:
            return b"\xff\xff"

        async def complains(_request: bytes, _context: object) -> bytes:
            return WriteBinlogResp(errmsg="no room").SerializeToString()

        for handler, said in ((garbage, "can't be read"), (complains, "no room")):

            async def ask(way: GrpcWay, said: str = said) -> None:
                refusal = await refusal_of(way, b"binlog")
                assert isinstance(refusal, Unavailable)
                assert not refusal.definite
                assert said in refusal.message

            await asked(handler, ask, method="WriteBinlog", calls=8)

    asyncio.run(main())


def test_a_write_to_a_pump_that_moves_meanwhile_is_unknown_and_the_next_one_finds_it() -> None:
    async def main() -> None:
        async with asyncio.timeout(ANSWER_S):
            entered, never = asyncio.Event(), asyncio.Event()

            async def hangs(_request: bytes, _context: object) -> bytes:
                entered.set()
                await never.wait()
                return b""

            async def with_both(old: GrpcWay) -> None:
                address = [old._address_now()]
                way = GrpcWay("p1", lambda: address[0], 0)

                async def moved(new: GrpcWay) -> None:
                    first = asyncio.create_task(refusal_of(way, b"first"))
                    await entered.wait()
                    address[0] = new._address_now()
                    assert await way.write([b"second"], ANSWER_S) == [None]
                    refusal = await first
                    assert isinstance(refusal, Unavailable)
                    assert "has moved" in refusal.message

                await asked(acks, moved, method="WriteBinlog", calls=8)
                await way.close()

            await asked(hangs, with_both, method="WriteBinlog", calls=8)

    asyncio.run(main())


def test_a_pump_without_a_grpc_address_was_sent_nothing() -> None:
    async def main() -> None:
        with pytest.raises(NotSent) as refused:
            await GrpcWay("p1", str, 0).write([b"binlog"], ANSWER_S)
        assert refused.value.definite
        assert "grpc-addr" in refused.value.hint

    asyncio.run(main())
