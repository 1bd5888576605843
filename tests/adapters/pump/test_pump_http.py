"""The Pump's own routes on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.adapters.pump.rig import registry_and_client, running
from tests.servers import nats_server
from tests.unit.pump.rig import CLUSTER, CLUSTER_ID, NODE, commit, prewrite, rollback
from tidelog import messages, subjects
from tidelog.http_admin import HttpAdmin
from tidelog.messages import Consumer, Nodes, NodeStatus
from tidelog.ports import Request
from tidelog.real.clock import RealClock
from tidelog.supervisor import Supervisor
from tidelog.timestamps import compose
from tidelog_proto.binlog_pb2 import PrewriteValue, TableMutation
from tidelog_pump.config import PumpConfig, StorageConfig

CONFIG = PumpConfig(
    cluster=CLUSTER,
    node_id=NODE,
    cluster_id=CLUSTER_ID,
    oracle="follow",
    storage=StorageConfig(stop_write_at_available_space=1),
)


@asynccontextmanager
async def admin_of(tree: Supervisor) -> AsyncIterator[str]:
    """The address of its admin server."""
    admin = HttpAdmin(lambda: {"ready": True}, lambda: tree.routes)
    try:
        yield await admin.start("127.0.0.1:0")
    finally:
        await admin.stop()


def test_drainers_and_binlogs_over_http(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        base = compose(RealClock().wall_ms())
        rows = TableMutation(table_id=41, inserted_rows=[b"a", b"b"], updated_rows=[b"c"])
        value = PrewriteValue(schema_version=9, mutations=[rows]).SerializeToString()
        async with (
            registry_and_client(url, NODE) as (_, client),
            running(CONFIG, tmp_path / "data", url) as tree,
            aiohttp.ClientSession() as session,
            admin_of(tree) as address,
        ):

            async def get(path: str) -> tuple[int, dict[str, Any]]:
                async with session.get(f"http://{address}{path}") as answer:
                    return answer.status, await answer.json()

            await client.until_online()
            await client.done(prewrite(base, value), prewrite(base + 1), commit(base, base + 5))
            await client.done(rollback(base + 2), commit(base + 3, base + 6))
            await client.until_state(base, "committed")
            for ts in (base, base + 5):
                status, body = await get(f"/debug/binlog/{ts}")
                (shown,) = body["found"]
                assert (status, body["ts"]) == (200, ts)
                assert (shown["start_ts"], shown["commit_ts"]) == (base, base + 5)
                assert (shown["state"], shown["file"]) == ("committed", "value/000000.vlog")
                assert shown["record"]["schema_version"] == 9
                assert shown["record"]["mutations"] == [
                    {"table_id": 41, "inserted": 2, "updated": 1, "deleted": 0}
                ]
            await client.until_state(base + 3, "unpaired")
            for ts, state in (
                (base + 1, "open"),
                (base + 2, "rolled_back"),
                (base + 3, "unpaired"),
            ):
                status, body = await get(f"/debug/binlog/{ts}")
                assert (status, [s["state"] for s in body["found"]]) == (200, [state])
            assert (await get(f"/debug/binlog/{base + 4}"))[0] == 404
            for nonsense in ("x", "-1", "0", "1.5", "9" * 40, "%D9%A3", "1e3", str(1 << 63)):
                status, body = await get(f"/debug/binlog/{nonsense}")
                assert (status, body["code"]) == (400, "BadInput"), nonsense

            async with session.post(f"http://{address}/debug/gc/trigger") as answer:
                collected = await answer.json()
                assert (answer.status, collected["segments"], collected["lost"]) == (200, 0, [])
            assert (await get("/debug/gc/trigger"))[0] == 405

            await client.pull(base - 1, feed="main")
            status, body = await get("/drainers")
            assert (status, body["feeds"], body["drainers"]) == (200, {"main": base - 1}, None)
            assert "can't be asked" in body["error"]

            async def nodes(request: Request) -> None:
                drainer = NodeStatus("drainer-main", kind=messages.DRAINER, resolvedTS=base)
                pump = NodeStatus(NODE, kind=messages.PUMP)
                reader = Consumer("applier-1", "main", base - 9)
                request.respond(messages.encode(Nodes([drainer, pump], [reader], {}, base - 9)))

            await client.bus.serve(subjects.registry(CLUSTER, "nodes"), nodes)
            _, body = await get("/drainers")
            assert [d["nodeId"] for d in body["drainers"]] == ["drainer-main"]
            assert {"unreachable", "lag_ms"} <= set(body["drainers"][0])
            assert [(c["name"], c["commit_ts"]) for c in body["consumers"]] == [
                ("applier-1", base - 9)
            ]
            assert (body["safe_point"], body["error"]) == (base - 9, "")

    with nats_server(tmp_path) as server:
        asyncio.run(main(server.url))
