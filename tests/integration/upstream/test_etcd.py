"""The nodes in PD's etcd, against Debian's etcd: an operator's words, etcd killed."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import msgspec

from tests.etcd_members import ROOT, answered, member, places
from tests.integration.registry.process import Registry, living
from tests.integration.registry.test_state_http import until_state
from tests.servers import nats_server
from tests.unit.registry.nodes import drainer, nodes, pump
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.upstream.etcd import CLUSTER_ID_KEY, EtcdClient

CLUSTER = 7710567220212964292
P1 = ROOT + b"pumps/p1"
SEED = ["nodeId", "host", "state", "isAlive", "score", "label", "maxCommitTS", "updateTS"]


async def until_shown(client: EtcdClient, state: str) -> bytes:
    """p1's entry, once it has that state."""
    found: list[bytes] = []
    async with asyncio.timeout(30):
        while not found or msgspec.json.decode(found[0])["state"] != state:
            await asyncio.sleep(0.1)
            found = [kv.value for kv in await client.under(P1)]
    return found[0]


async def operator(port: int, client: EtcdClient, state: str) -> None:
    """What the original's `binlogctl update-pump -state` does: it reads, changes, puts."""
    (kv,) = await client.under(P1)
    value = msgspec.json.encode(msgspec.json.decode(kv.value) | {"state": state})
    command = ["etcdctl", f"--endpoints=127.0.0.1:{port}", "put", P1.decode(), value.decode()]
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, timeout=20)


def test_nodes_are_shown_and_an_operators_state_is_an_order(tmp_path: Path) -> None:
    asyncio.run(_mirrored(tmp_path))


async def _mirrored(tmp_path: Path) -> None:
    cluster = places("pd1")
    port = cluster["pd1"].client
    url = f"http://127.0.0.1:{port}"
    rpc = GrpcRpc()
    client = EtcdClient(rpc, url)
    foreign = ROOT + b"pumps/theirs"
    with nats_server(tmp_path / "nats") as server:
        registry = Registry(server, tmp_path / "r", "--oracle", "follow", "--upstream-pd-urls", url)
        registry.start()
        try:
            async with living(server, tmp_path, pump("p1"), drainer("d")) as bus:
                # etcd is not there yet: nobody waits for it.
                await until_state(bus, "p1", "online")
                async with member(tmp_path, "pd1", cluster):
                    await answered(client)
                    await client.put_if(CLUSTER_ID_KEY, CLUSTER.to_bytes(8, "big"), 0)
                    kept = await client.put_if(foreign, b"not ours", 0)
                    said = msgspec.json.decode(await until_shown(client, "online"))
                    (p1,) = [n for n in (await nodes(bus)).nodes if n.nodeId == "p1"]
                    assert list(said) == SEED
                    assert (said["nodeId"], said["host"]) == ("p1", p1.host or p1.http)
                    await operator(port, client, "paused")
                    await until_state(bus, "p1", "paused")
                    await until_shown(client, "paused")
                async with member(tmp_path, "pd1", cluster):
                    await answered(client)
                    await operator(port, client, "online")
                    await until_state(bus, "p1", "online")
                    await operator(port, client, "dancing")
                    await until_shown(client, "online")
                    names = {kv.key: kv for kv in await client.under(ROOT)}
                    assert set(names) == {P1, foreign, ROOT + b"drainers/d"}
                    assert names[foreign].mod_revision == kept
        finally:
            registry.kill()
            await rpc.close()
