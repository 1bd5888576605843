"""The Pump on real servers: what a TiDB recorded goes in, what the original answered comes out."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.adapters.pump.rig import GrpcClient, ascending, registry_and_client, running
from tests.adapters.pump.test_pump_real import config
from tests.fixtures.capture import pulled, records
from tests.servers import nats_server
from tests.unit.pump.rig import NODE
from tidelog_proto.binlog_pb2 import Binlog

SET = "set-a"


def test_a_replayed_capture_comes_back_as_the_original_answered_it(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        wire = records(SET)
        expected = [b for b in pulled(SET) if b.start_ts != b.commit_ts]
        last = max(b.commit_ts for b in expected)
        settings = config(tmp_path, wire[0].cluster_id)
        async with registry_and_client(url, NODE) as (_, client):
            client.cluster_id = settings.cluster_id
            async with running(settings, tmp_path / "data", url) as tree:
                await client.until_online()
                over_socket = GrpcClient(f"unix:{settings.socket}", settings.cluster_id)
                for number, record in enumerate(wire):
                    if number % 2:
                        await client.done(record.payload)
                    else:
                        assert await over_socket.write(record.payload) == ""
                await over_socket.close()
                txns = await client.pull_up_to(last)
                assert [Binlog.FromString(t.payload) for t in txns] == expected
                assert tree.status()["sorter"]["late_copies"] == 0
                assert tree.status()["indexer"]["unpaired_commits"] == []
            async with running(settings, tmp_path / "data", url) as tree:
                await client.until_online()
                again = await client.pull_up_to(last)
                assert [t.payload for t in again] == [t.payload for t in txns]
                address = tree.status()["grpc"]["bound"]
                reader = GrpcClient(str(address), settings.cluster_id)
                seen = []
                async for response in reader.pull(0):
                    entity = response.entity
                    seen.append((entity.meta.startTs, entity.meta.commitTs, entity.payload))
                    if entity.meta.commitTs >= last:
                        break
                await reader.close()
                assert ascending(commit_ts for _, commit_ts, _ in seen)
                real = [payload for start, commit_ts, payload in seen if start != commit_ts]
                assert real == [t.payload for t in txns]

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))
