"""The nodes in PD's etcd, against Debian's etcd: fenced puts, an operator's words, etcd killed."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.integration.registry.process import Registry, living
from tests.integration.registry.test_state_http import until_state
from tests.integration.upstream.etcd_server import etcd, free_port
from tests.servers import nats_server
from tests.unit.registry.nodes import drainer, nodes, pump
from tidelog.errors import ForeignCluster, Unavailable
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.upstream.etcd import CLUSTER_ID_KEY, EtcdClient

CLUSTER = 7710567220212964292
ROOT = b"/tidb-binlog/v1/"
P1 = ROOT + b"pumps/p1"
SEED = ["nodeId", "host", "state", "isAlive", "score", "label", "maxCommitTS", "updateTS"]


async def answered(client: EtcdClient) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                await client.under(ROOT)
                return
            except Unavailable:
                await asyncio.sleep(0.1)


def test_a_put_is_fenced_and_outlives_etcd(tmp_path: Path) -> None:
    asyncio.run(_fenced(tmp_path))


async def _fenced(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    rpc = GrpcRpc()
    # The first address is one that nobody answers at.
    client = EtcdClient(rpc, f"http://127.0.0.1:{free_port()},http://127.0.0.1:{ports[0]}")
    key, other = ROOT + b"pumps/p1", b"/tidb-binlog/v2/x"
    try:
        async with etcd(tmp_path / "etcd", *ports):
            await answered(client)
            assert await client.under(ROOT) == []
            with pytest.raises(Unavailable, match="no PD's"):
                await client.check_cluster()
            assert await client.put_if(CLUSTER_ID_KEY, CLUSTER.to_bytes(8, "big"), 0)
            await client.check_cluster()
            assert client.cluster_id == CLUSTER
            foreign = EtcdClient(rpc, f"http://127.0.0.1:{ports[0]}", cluster_id=1)
            with pytest.raises(ForeignCluster):
                await foreign.check_cluster()
            assert await client.put_if(other, b"theirs", 0)
            first = await client.put_if(key, b"1", 0)
            assert await client.put_if(key, b"2", 0) == 0
            second = await client.put_if(key, b"2", first)
            assert await client.put_if(key, b"3", first) == 0
        with pytest.raises(Unavailable):
            await client.under(ROOT)
        async with etcd(tmp_path / "etcd", *ports):
            await answered(client)
            (kv,) = await client.under(ROOT)
            assert (kv.key, kv.value, kv.mod_revision) == (key, b"2", second)
    finally:
        await rpc.close()


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
    ports = free_port(), free_port()
    url = f"http://127.0.0.1:{ports[0]}"
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
                async with etcd(tmp_path / "etcd", *ports):
                    await answered(client)
                    await client.put_if(CLUSTER_ID_KEY, CLUSTER.to_bytes(8, "big"), 0)
                    kept = await client.put_if(foreign, b"not ours", 0)
                    said = msgspec.json.decode(await until_shown(client, "online"))
                    (p1,) = [n for n in (await nodes(bus)).nodes if n.nodeId == "p1"]
                    assert list(said) == SEED
                    assert (said["nodeId"], said["host"]) == ("p1", p1.host or p1.http)
                    await operator(ports[0], client, "paused")
                    await until_state(bus, "p1", "paused")
                    await until_shown(client, "paused")
                async with etcd(tmp_path / "etcd", *ports):
                    await answered(client)
                    await operator(ports[0], client, "online")
                    await until_state(bus, "p1", "online")
                    await operator(ports[0], client, "dancing")
                    await until_shown(client, "online")
                    names = {kv.key: kv for kv in await client.under(ROOT)}
                    assert set(names) == {P1, foreign, ROOT + b"drainers/d"}
                    assert names[foreign].mod_revision == kept
        finally:
            registry.kill()
            await rpc.close()
