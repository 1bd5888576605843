"""`EtcdClient` against PD's etcd, held to one suite: the fake of the unit tests, Debian's etcd, and
three members of it that ask for a certificate."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from tests.adapters.security.pki import HOST, Authority
from tests.etcd_members import Place, answered, member, places
from tests.servers import free_port
from tests.unit.upstream.fake_etcd import FakeEtcd
from tests.unit.upstream.fake_net import FakeNet
from tidelog.errors import ForeignCluster, Unavailable
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.security.tls import TlsFiles
from tidelog.upstream import etcd
from tidelog.upstream.etcd import CLUSTER_ID_KEY, MAX_KEYS, EtcdClient
from tidelog.upstream.rpc import Rpc

CLUSTER = 7710567220212964292
ROOT = b"/tidb-binlog/v1/"
KEY, SHADOW = ROOT + b"pumps/p1", b"/tidelog/default/pumps/p1"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real etcd syncs each write, and its members may have to elect in between."""
    monkeypatch.setattr(etcd, "TRY_S", 20.0)


class Stage(ABC):
    """Members, that can be taken down and brought up again."""

    def __init__(self, rpc: Rpc, urls: str) -> None:
        self.rpc, self.urls = rpc, urls

    def client(self, cluster_id: int = 0) -> EtcdClient:
        return EtcdClient(self.rpc, self.urls, cluster_id=cluster_id)

    @abstractmethod
    async def down(self) -> None:
        """The first member, which is the only one but of the cluster of three."""

    @abstractmethod
    async def up(self) -> None: ...


class Faked(Stage):
    def __init__(self) -> None:
        self.net = FakeNet()
        self.etcd = FakeEtcd(self.net, "pd1:2379", cluster_id=0)
        super().__init__(self.net, self.etcd.urls)

    async def down(self) -> None:
        self.net.down.update(self.etcd.addresses)

    async def up(self) -> None:
        self.net.down.clear()


class Running(Stage):
    def __init__(self, directory: Path, cluster: dict[str, Place], tls: TlsFiles | None) -> None:
        scheme = "https" if tls else "http"
        # The first address is one that nobody answers at.
        ports = [free_port(), *(place.client for place in cluster.values())]
        urls = ",".join(f"{scheme}://{HOST}:{port}" for port in ports)
        super().__init__(GrpcRpc(tls), urls)
        self._directory, self._cluster, self._tls = directory, cluster, tls
        self._first, *self._others = cluster
        self._life = AsyncExitStack()

    async def up(self) -> None:
        await self._life.enter_async_context(self._of(self._first))

    async def down(self) -> None:
        await self._life.aclose()

    def _of(self, name: str) -> AbstractAsyncContextManager[None]:
        return member(self._directory, name, self._cluster, self._tls)

    @asynccontextmanager
    async def lives(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as others:
            for name in self._others:
                await others.enter_async_context(self._of(name))
            await self.up()
            try:
                yield
            finally:
                await self.down()
                await self.rpc.close()


@asynccontextmanager
async def staged(kind: str, directory: Path) -> AsyncIterator[Stage]:
    if kind == "fake":
        yield Faked()
        return
    tls = None
    if kind == "three with TLS":
        authority = Authority(directory, "authority")
        cert, key = authority.issue("pd", (HOST,))
        tls = TlsFiles(ssl_ca=authority.ca, ssl_cert=cert, ssl_key=key)
    cluster = places("pd1", "pd2", "pd3") if tls else places("pd1")
    stage = Running(directory, cluster, tls)
    async with stage.lives():
        yield stage


KINDS = pytest.mark.parametrize("kind", ["fake", "one", "three with TLS"])
Scenario = Callable[[Stage, EtcdClient], Awaitable[None]]


def play(scenario: Scenario, kind: str, directory: Path) -> None:
    async def main() -> None:
        async with staged(kind, directory) as stage:
            client = stage.client()
            await answered(client)
            await scenario(stage, client)

    asyncio.run(main())


@KINDS
def test_a_put_is_fenced_by_the_last_change_of_its_key(kind: str, tmp_path: Path) -> None:
    async def scenario(stage: Stage, client: EtcdClient) -> None:
        first = await client.put_if(KEY, b"1", 0)
        assert first
        assert await client.put_if(KEY, b"2", 0) == 0
        second = await client.put_if(KEY, b"2", first)
        assert second > first
        assert await client.put_if(KEY, b"3", first) == 0
        (kv,) = await client.under(ROOT)
        assert (kv.key, kv.value, kv.mod_revision) == (KEY, b"2", second)

    play(scenario, kind, tmp_path)


@KINDS
def test_what_is_put_beside_has_its_revision_until_somebody_touches_it(
    kind: str, tmp_path: Path
) -> None:
    async def scenario(stage: Stage, client: EtcdClient) -> None:
        async def revisions() -> list[int]:
            return [kv.mod_revision for kv in await client.under(b"/tid")]

        both = await client.put_if(KEY, b"1", 0, beside=(SHADOW, b"1"))
        assert await revisions() == [both, both]
        touched = await client.put_if(KEY, b"theirs", both)
        assert await client.put_if(KEY, b"2", both, beside=(SHADOW, b"2")) == 0
        assert await revisions() == [touched, both]
        again = await client.put_if(KEY, b"2", touched, beside=(SHADOW, b"2"))
        assert await revisions() == [again, again]

    play(scenario, kind, tmp_path)


@KINDS
def test_keys_come_in_order_and_not_without_end(kind: str, tmp_path: Path) -> None:
    async def scenario(stage: Stage, client: EtcdClient) -> None:
        for key in (ROOT + b"b", ROOT + b"a", ROOT[:-1] + b"0", ROOT[:-2] + b"0/x"):
            await client.put_if(key, b"", 0)
        assert [kv.key for kv in await client.under(ROOT)] == [ROOT + b"a", ROOT + b"b"]
        puts = [client.put_if(ROOT + b"n%d" % n, b"", 0) for n in range(MAX_KEYS - 1)]
        for some in range(0, len(puts), 100):
            assert all(await asyncio.gather(*puts[some : some + 100]))
        with pytest.raises(Unavailable, match=f"more than {MAX_KEYS}"):
            await client.under(ROOT)

    play(scenario, kind, tmp_path)


@KINDS
def test_whose_cluster_it_is_stands_in_it(kind: str, tmp_path: Path) -> None:
    async def scenario(stage: Stage, client: EtcdClient) -> None:
        with pytest.raises(Unavailable, match="no PD's"):
            await client.check_cluster()
        assert await client.put_if(CLUSTER_ID_KEY, CLUSTER.to_bytes(8, "big"), 0)
        await client.check_cluster()
        assert client.cluster_id == CLUSTER
        foreign = stage.client(cluster_id=1)
        await answered(foreign)
        with pytest.raises(ForeignCluster):
            await foreign.check_cluster()

    play(scenario, kind, tmp_path)


@KINDS
def test_a_member_that_is_gone_takes_nothing_with_it(kind: str, tmp_path: Path) -> None:
    async def scenario(stage: Stage, client: EtcdClient) -> None:
        first = await client.put_if(KEY, b"1", 0)
        await stage.down()
        if kind == "three with TLS":
            await answered(client)
            assert await client.put_if(KEY, b"2", first)
        else:
            with pytest.raises(Unavailable):
                await client.under(ROOT)
        await stage.up()
        await answered(client)
        (kv,) = await client.under(ROOT)
        assert kv.value == (b"2" if kind == "three with TLS" else b"1")

    play(scenario, kind, tmp_path)


def test_who_has_no_certificate_is_refused_by_name(tmp_path: Path) -> None:
    async def main() -> None:
        async with staged("three with TLS", tmp_path) as stage:
            await answered(stage.client())
            authority = Authority(tmp_path, "other")
            rpc = GrpcRpc(TlsFiles(ssl_ca=authority.ca))
            try:
                with pytest.raises(Unavailable):
                    await EtcdClient(rpc, stage.urls).under(ROOT)
            finally:
                await rpc.close()

    asyncio.run(main())
