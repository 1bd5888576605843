"""gRPC's own message compression: to callers that accept it, and the same to those that don't."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import msgspec
import pytest

from tests.adapters.pump.rig import registry_and_client, running
from tests.adapters.pump.test_pump_http import CONFIG
from tests.faults.proxy import proxied
from tests.servers import nats_server
from tests.unit.pump.rig import CLUSTER_ID, NODE, commit, prewrite
from tidelog.real.clock import RealClock
from tidelog.timestamps import compose
from tidelog_proto.pump_pb2 import PullBinlogReq, PullBinlogResp, WriteBinlogReq, WriteBinlogResp
from tidelog_pump.edges.grpc_edge import OPTIONS

IDENTITY_ONLY = ("grpc.compression_enabled_algorithms_bitset", 1)
ROWS = b"".join(b"row %06d of the table of the customers;" % n for n in range(60_000))


@pytest.mark.parametrize("setting", ["gzip", "none"])
def test_pulls_are_compressed_for_those_who_accept_it(tmp_path: Path, setting: str) -> None:
    async def pulled(port: int, last: int, *options: tuple[str, int]) -> list[bytes]:
        found = []
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=(*OPTIONS, *options))
        async with channel:
            pull = channel.unary_stream("/binlog.Pump/PullBinlogs", None, None)
            call = pull(PullBinlogReq(clusterID=CLUSTER_ID).SerializeToString())
            async for answer in call:
                entity = PullBinlogResp.FromString(answer).entity
                if entity.meta.startTs != entity.meta.commitTs:
                    found.append(entity.payload)
                if entity.meta.commitTs >= last:
                    break
        return found

    async def main(url: str) -> None:
        base = compose(RealClock().wall_ms())
        config = msgspec.structs.replace(CONFIG, grpc_addr="127.0.0.1:0", grpc_compression=setting)
        async with (
            registry_and_client(url, NODE) as (_, client),
            running(config, tmp_path / "data", url) as tree,
        ):
            await client.until_online()
            address = str(tree.status()["grpc"]["bound"])
            gzipped = grpc.Compression.Gzip
            async with grpc.aio.insecure_channel(
                address, options=OPTIONS, compression=gzipped
            ) as channel:
                write = channel.unary_unary("/binlog.Pump/WriteBinlog", None, None)
                for payload in (prewrite(base, ROWS), commit(base, base + 1)):
                    body = WriteBinlogReq(clusterID=CLUSTER_ID, payload=payload)
                    answer = WriteBinlogResp.FromString(await write(body.SerializeToString()))
                    assert answer.errmsg == ""
            port = int(address.rpartition(":")[2])
            async with proxied(port) as accepting, proxied(port) as plain:
                first = await pulled(accepting.port, base + 1)
                second = await pulled(plain.port, base + 1, IDENTITY_ONLY)
                assert first == second
                assert len(first) == 1
                assert len(first[0]) > len(ROWS)
                assert plain.sent_down > len(ROWS)
                assert (accepting.sent_down < len(ROWS) // 4) == (setting == "gzip")

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))
