"""A Pump whose timestamps come from PD, and whose orphans TiKV knows."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.pump.rig import CLUSTER_ID, CONFIG, NODE, Client, Registry, commit, prewrite, start
from tests.unit.upstream.fake_net import FakeNet
from tests.unit.upstream.fake_pd import FakePd
from tests.unit.upstream.fake_tikv import FakeTikv, Lock
from tidelog.config import load
from tidelog.errors import ConfigError
from tidelog.security.tls import TlsFiles
from tidelog.sim import World, run
from tidelog.timestamps import compose
from tidelog.upstream.config import UpstreamConfig
from tidelog_pump.config import PumpConfig

PDS = ("pd1:2379", "pd2:2379", "pd3:2379")
URLS = ",".join(f"http://{pd}" for pd in PDS)
OF_PD = msgspec.structs.replace(CONFIG, oracle="pd", upstream=UpstreamConfig(pd_urls=URLS))


class Upstream:
    """A PD of three servers, three stores of TiKV, and a Pump that asks them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.net = FakeNet()
        self.pd = FakePd(self.net, *PDS, wall_ms=world.clock().wall_ms)
        self.pd.cluster_id = CLUSTER_ID
        self.tikv = FakeTikv(self.net, self.pd)
        world.open_rpc = lambda life, tls: self.net
        self.registry: Registry
        self.client: Client

    async def start(self, config: PumpConfig = OF_PD) -> None:
        self.registry, self.client = await start(self._world, config)
        self.registry.oracle_answers = False

    def allocate(self) -> int:
        """As a TiDB has it from PD."""
        self.pd.logical += 1
        return compose(self.pd.physical, self.pd.logical)

    def orphan(self, key: bytes, *, alive: bool) -> tuple[int, bytes]:
        """A transaction that has locked its primary key: start_ts, its Prewrite."""
        start_ts = self.allocate()
        self.tikv.key(key).lock = Lock(start_ts, key, alive)
        return start_ts, prewrite(start_ts, key=key)

    async def resolved(self, above: int) -> int:
        """resolved_ts, once it is above."""
        async with asyncio.timeout(30):
            while (at := (await self.client.pull(above, wait_ms=200)).resolved_ts) <= above:
                pass
        return at


def test_what_resolves_comes_from_pd_through_a_change_of_its_leader() -> None:
    async def main(world: World) -> None:
        upstream = Upstream(world)
        await upstream.start()
        before = await upstream.resolved(0)
        upstream.net.down.add(PDS[0])
        upstream.pd.leader = PDS[1]
        ts = upstream.allocate()
        assert ts > before
        await upstream.client.done(prewrite(ts), commit(ts, upstream.allocate()))
        assert await upstream.resolved(ts) > ts
        shown = world.node(NODE).service.status()["upstream"]
        assert (shown["pd"], shown["cluster_id"]) == (PDS[1], CLUSTER_ID)

    run(main, 1)


def test_a_pd_that_says_nothing_for_a_minute_holds_the_stream_and_no_write() -> None:
    async def main(world: World) -> None:
        upstream = Upstream(world)
        await upstream.start()
        before = await upstream.resolved(0)
        upstream.net.silent |= set(PDS)
        ts = upstream.allocate()
        await upstream.client.done(prewrite(ts), commit(ts, upstream.allocate()))
        await asyncio.sleep(60)
        held = (await upstream.client.pull(before, wait_ms=0)).resolved_ts
        assert held <= ts
        upstream.net.silent.clear()
        assert await upstream.resolved(ts) > ts
        assert "oracle" in upstream.registry.beats[-1].status.detail
        await asyncio.sleep(5)
        assert "oracle" not in upstream.registry.beats[-1].status.detail

    run(main, 2)


def test_tikv_closes_what_its_writer_left_open() -> None:
    async def main(world: World) -> None:
        upstream = Upstream(world)
        await upstream.start()
        committed, first = upstream.orphan(b"a", alive=True)
        rolled_back, second = upstream.orphan(b"b", alive=True)
        alive, third = upstream.orphan(b"c", alive=True)
        await upstream.client.done(first, second, third)
        commit_ts = upstream.allocate()
        upstream.tikv.set_regions([(b"", b"b"), (b"b", b"")], version=2)
        upstream.tikv.key(b"a").commit(committed, commit_ts)
        upstream.tikv.key(b"b").roll_back(rolled_back)
        await upstream.client.until_state(committed, "committed")
        await upstream.client.until_state(rolled_back, "rolled_back")
        assert (await upstream.client.pull(0, wait_ms=0)).resolved_ts < commit_ts
        last_ts = upstream.allocate()
        upstream.tikv.key(b"c").commit(alive, last_ts)
        found = await upstream.client.pull_up_to(last_ts)
        assert [txn.commit_ts for txn in found] == [commit_ts, last_ts]
        assert not upstream.registry.asked

    run(main, 3)


def test_a_lock_that_outlived_its_transaction_is_rolled_back_in_tikv() -> None:
    async def main(world: World) -> None:
        upstream = Upstream(world)
        await upstream.start(msgspec.structs.replace(OF_PD, txn_timeout_s=30.0))
        start_ts, binlog = upstream.orphan(b"k", alive=False)
        await upstream.client.done(binlog)
        await asyncio.sleep(20)
        assert upstream.tikv.key(b"k").lock is not None
        await upstream.client.until_state(start_ts, "open")
        await asyncio.sleep(20)
        await upstream.client.until_state(start_ts, "rolled_back")
        assert upstream.tikv.key(b"k").lock is None

    run(main, 4)


def test_a_pd_of_another_cluster_moves_nothing() -> None:
    async def main(world: World) -> None:
        upstream = Upstream(world)
        upstream.pd.cluster_id = CLUSTER_ID + 1
        await upstream.start()
        await asyncio.sleep(10)
        assert (await upstream.client.pull(0, wait_ms=0)).resolved_ts == 0
        said = upstream.registry.beats[-1].status.detail["oracle"]
        assert f"the PD is of cluster {CLUSTER_ID + 1}, this one is {CLUSTER_ID}" in said

    run(main, 5)


def test_under_follow_tikv_is_asked_where_pd_is_known() -> None:
    async def main(world: World) -> None:
        upstream = Upstream(world)
        await upstream.start(msgspec.structs.replace(OF_PD, oracle="follow"))
        start_ts, binlog = upstream.orphan(b"k", alive=True)
        await upstream.client.done(binlog)
        upstream.tikv.key(b"k").roll_back(start_ts)
        await upstream.client.until_state(start_ts, "rolled_back")

    run(main, 6)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--oracle", "pd"), "needs to know where PD is"),
        (("--upstream-pd-urls", "pd1"), "no address of a PD"),
        (("--upstream-pd-urls", "http://a:1,https://b:2"), "mix http and https"),
        (("--upstream-pd-urls", "https://a:1"), "no file vouches"),
        (("--upstream-pd-urls", "http://a:1", "--upstream-security-ssl-ca", "ca.pem"), "say http"),
    ],
)
def test_what_can_not_be_meant_is_refused(flags: tuple[str, ...], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load(PumpConfig, "pump", flags, {})


def test_https_asks_for_tls() -> None:
    flags = ("--upstream-pd-urls", "https://a:1", "--upstream-security-ssl-ca", "ca.pem")
    assert load(PumpConfig, "pump", flags, {}).upstream.security == TlsFiles(ssl_ca="ca.pem")
