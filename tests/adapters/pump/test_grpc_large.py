"""Large transactions by PullBinlogs: whole or a typed status, and nothing damaged goes out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import grpc
import msgspec
import pytest

from tests.adapters.pump.rig import GrpcClient, registry_and_client, running, until
from tests.adapters.pump.test_pump_http import CONFIG
from tests.servers import nats_server
from tests.unit.pump.rig import CLUSTER_ID, NODE, Client, commit, prewrite
from tidelog.errors import MessageTooLarge
from tidelog.pump_client.delivery.grpc_way import GrpcWay
from tidelog.real.clock import RealClock
from tidelog.supervisor import Supervisor
from tidelog.timestamps import compose
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.pump_pb2 import PullBinlogReq, WriteBinlogReq
from tidelog_pump.edges import grpc_edge, grpc_pull

VALUE = bytes(range(256)) * (24 << 10)  # 6 MiB
Scenario = Callable[[Supervisor, Client, GrpcClient, int], Awaitable[None]]


def on_a_pump(directory: Path, scenario: Scenario) -> None:
    """With one large transaction, committed one above its start_ts, and a small one after it."""

    async def main(url: str) -> None:
        base = compose(RealClock().wall_ms())
        config = msgspec.structs.replace(CONFIG, grpc_addr="127.0.0.1:0")
        async with (
            registry_and_client(url, NODE) as (_, client),
            running(config, directory / "data", url) as tree,
        ):
            await client.until_online()
            direct = GrpcClient(str(tree.status()["grpc"]["bound"]), CLUSTER_ID)
            assert await direct.write(prewrite(base, VALUE)) == ""
            await client.done(commit(base, base + 1))
            await client.done(prewrite(base + 2), commit(base + 2, base + 3))
            await scenario(tree, client, direct, base)
            await direct.close()

    with nats_server(directory) as server:
        asyncio.run(main(server.url))


def sending(tree: Supervisor) -> int:
    return int(str(tree.status()["grpc"]["sending_bytes"]))


async def pulled(direct: GrpcClient, after_ts: int, last: int) -> list[Binlog]:
    found = []
    async for response in direct.pull(after_ts):
        found.append(Binlog.FromString(response.entity.payload))
        if response.entity.meta.commitTs >= last:
            break
    return found


def test_it_comes_whole_and_counts_while_it_is_sent(tmp_path: Path) -> None:
    async def scenario(tree: Supervisor, client: Client, direct: GrpcClient, base: int) -> None:
        large, little = await pulled(direct, base - 1, base + 3)
        assert (large.prewrite_value, large.commit_ts) == (VALUE, base + 1)
        assert little.commit_ts == base + 3
        many = await asyncio.gather(*(pulled(direct, base - 1, base + 3) for _ in range(6)))
        assert all(found[0] == large for found in many)
        by_nats = await client.pull_up_to(base + 3, base - 1)
        assert Binlog.FromString(by_nats[0].payload) == large
        await until(lambda: sending(tree) == 0)

    on_a_pump(tmp_path, scenario)


@pytest.mark.parametrize(
    ("what", "status"),
    [("message", "RESOURCE_EXHAUSTED"), ("sum", "UNAVAILABLE"), ("damage", "DATA_LOSS")],
)
def test_what_can_t_be_sent_is_a_typed_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, status: str
) -> None:
    async def scenario(tree: Supervisor, client: Client, direct: GrpcClient, base: int) -> None:
        call = None
        if what == "message":
            monkeypatch.setattr(grpc_pull, "record", SimpleNamespace(MAX_PAYLOAD=5 << 20))
        elif what == "sum":
            monkeypatch.setattr(grpc_pull, "SENDING_BYTES", 1)
            request = PullBinlogReq(clusterID=CLUSTER_ID)
            request.startFrom.offset = base - 1
            unread = direct.channel.unary_stream("/binlog.Pump/PullBinlogs", None, None)
            call = unread(request.SerializeToString())
            await until(lambda: sending(tree) > len(VALUE))
        else:
            segment = tmp_path / "data/value/000000.vlog"
            with segment.open("r+b") as file:
                file.seek(3 << 20)
                file.write(b"\xff\x00\xff")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await pulled(direct, base - 1, base + 3)
        assert refused.value.code().name == status
        assert str(base + 1) in (refused.value.details() or "") or what != "message"
        (little,) = await pulled(direct, base + 1, base + 3)
        assert little.commit_ts == base + 3
        if call is not None:
            call.cancel()
            await until(lambda: sending(tree) == 0)
        if what == "message":
            assert len(await client.pull_up_to(base + 3, base - 1)) == 2

    on_a_pump(tmp_path, scenario)


def test_one_just_above_the_limit_is_refused_and_one_just_below_comes_in_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T3 (TiDB #28659, tidb-binlog #1156), with a limit that fits a test: the real one is 2 GiB."""
    limit = 7 << 20
    monkeypatch.setattr(grpc_edge, "SERVER_OPTIONS", (("grpc.max_receive_message_length", limit),))

    def filling(start_ts: int, size: int) -> bytes:
        """A Prewrite whose WriteBinlogReq takes `size` bytes."""
        length = size - 200
        while True:
            made = prewrite(start_ts, bytes(length))
            taken = WriteBinlogReq(clusterID=CLUSTER_ID, payload=made).ByteSize()
            if taken == size:
                return made
            length += size - taken

    async def scenario(tree: Supervisor, client: Client, direct: GrpcClient, base: int) -> None:
        way = GrpcWay(NODE, lambda: str(tree.status()["grpc"]["bound"]), CLUSTER_ID)
        (refused,) = await way.write([filling(base + 10, limit + 200)], 30)
        await way.close()
        assert isinstance(refused, MessageTooLarge)
        assert refused.definite
        with pytest.raises(grpc.aio.AioRpcError) as above:
            await direct.write(filling(base + 10, limit + 1))
        assert above.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        below = filling(base + 20, limit)
        assert await direct.write(below) == ""
        await client.done(commit(base + 20, base + 21))
        frames = await client.pull_up_to(base + 21, base + 3)
        assert [txn.commit_ts for txn in frames] == [base + 21]
        assert (
            Binlog.FromString(frames[0].payload).prewrite_value
            == Binlog.FromString(below).prewrite_value
        )
        first = await client.pull(base + 3)
        assert first.ByteSize() <= 512 << 10
        assert len(first.txns[0].payload) < first.txns[0].total
        assert tree.ready

    on_a_pump(tmp_path, scenario)
