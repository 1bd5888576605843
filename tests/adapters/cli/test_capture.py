"""A capture's records sent to a Pump over gRPC: a Pump that is full for good ends the replay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from tests.unit.pump.rig import commit, prewrite
from tidelog.errors import BadInput, DeadlineExceeded, Unavailable
from tidelog_cli import capture
from tidelog_cli.capture import Replayer
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp

Code = grpc.StatusCode


class FakePump:
    """Answers each write by the next of `codes`, the last one for good; OK takes it."""

    def __init__(self, *codes: grpc.StatusCode) -> None:
        self.heard: list[bytes] = []
        self._codes = list(codes)

    async def write(self, request: WriteBinlogReq, context: Any) -> WriteBinlogResp:
        self.heard.append(request.payload)
        code = self._codes.pop(0) if len(self._codes) > 1 else self._codes[0]
        if code is not Code.OK:
            await context.abort(code, "the disk is full")
        return WriteBinlogResp()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = grpc.aio.server()
        handler = grpc.unary_unary_rpc_method_handler(
            self.write,
            request_deserializer=WriteBinlogReq.FromString,
            response_serializer=WriteBinlogResp.SerializeToString,
        )
        rpcs = grpc.method_handlers_generic_handler("binlog.Pump", {"WriteBinlog": handler})
        server.add_generic_rpc_handlers((rpcs,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


def sent(pump: FakePump, *payloads: bytes) -> capture.Replayed:
    async def send() -> capture.Replayed:
        async with pump.serving() as address, Replayer([address], 1) as replayer:
            for payload in payloads:
                await replayer.send(payload)
            return replayer.result()

    return asyncio.run(send())


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "RETRY_S", 0.01)


def test_what_passes_is_tried_again_with_the_same_bytes() -> None:
    pump = FakePump(Code.UNAVAILABLE, Code.FAILED_PRECONDITION, Code.OK)
    records = prewrite(10), commit(10, 20)
    assert sent(pump, *records) == capture.Replayed(2, 1, 20)
    assert pump.heard == [records[0]] * 3 + [records[1]]


def test_a_pump_that_does_not_take_a_record_ends_it_with_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(capture, "GIVE_UP_S", 3.0)
    pump = FakePump(Code.OK, Code.UNAVAILABLE)
    with pytest.raises(DeadlineExceeded, match=r"does not take record 1 at .*: the disk is full"):
        sent(pump, prewrite(10), commit(10, 20))
    assert len(pump.heard) > 2


def test_a_pump_that_refuses_a_record_is_not_asked_again() -> None:
    pump = FakePump(Code.INVALID_ARGUMENT)
    with pytest.raises(BadInput, match=r"refuses record 0 at .*: the disk is full"):
        sent(pump, prewrite(10))
    assert pump.heard == [prewrite(10)]


def test_no_pump(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "REACH_S", 0.1)

    async def reach() -> None:
        async with Replayer(["127.0.0.1:1"], 1):
            raise AssertionError("nobody is there")

    with pytest.raises(Unavailable, match="no Pump answers at 127"):
        asyncio.run(reach())
