"""A Drainer that reads the schema from TiKV, where TiDB keeps it."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, begin, everything, said
from tests.unit.upstream.fake_net import FakeNet
from tests.unit.upstream.fake_pd import CLUSTER, FakePd
from tests.unit.upstream.fake_tikv import FakeTikv
from tidelog import subjects
from tidelog.config import load
from tidelog.errors import ConfigError, TidelogError
from tidelog.sim.world import World, run
from tidelog.upstream.config import UpstreamConfig
from tidelog.upstream.meta_keys import history_key
from tidelog_drainer.config import DrainerConfig
from tidelog_proto.binlog_pb2 import Binlog

PD, NEXT = "pd1:2379", "pd2:2379"
OF_TIKV = msgspec.structs.replace(
    CONFIG, ddl_history="pd", upstream=UpstreamConfig(pd_urls=f"http://{PD},http://{NEXT}")
)


async def tidb(world: World) -> tuple[FakeNet, FakePd]:
    """With the jobs of `OneTable` in TiKV, each in a region of its own."""
    net = FakeNet()
    pd = FakePd(net, PD, NEXT)
    tikv = FakeTikv(net, pd)
    tikv.set_regions([(b"", history_key(2)), (history_key(2), b"")])
    tikv.tell_pd()
    async for page in OneTable().jobs(0):
        for job in page:
            tikv.key(history_key(job.id)).value = msgspec.json.encode(job)
    world.open_rpc = lambda life, tls: net
    return net, pd


def test_rows_are_decoded_by_the_schema_that_tikv_holds() -> None:
    async def main(world: World) -> None:
        net, pd = await tidb(world)
        _, pump = await begin(world, OF_TIKV)
        pump.commit([*DDLS, txn(20)], 20)
        assert await everything(world) == [2, 4, 20]
        assert said(world.node("drainer"))["error"] == ""
        net.down.add(PD)
        pd.leader = NEXT
        pump.commit([txn(30)], 30)
        world.node("drainer").kill(restart_after_s=0.1)
        await world.until(lambda: world.node("drainer").starts == 2, 10)
        assert await everything(world) == [2, 4, 20, 30]

    run(main, 1)


def test_rows_of_a_version_that_no_job_tells_go_on_where_tidb_has_few_jobs() -> None:
    """A new cluster's: jobs that may have finished late are looked for below the newest ones."""

    async def main(world: World) -> None:
        await tidb(world)
        _, pump = await begin(world, OF_TIKV)
        pump.commit([*DDLS, txn(20, version=7)], 20)
        assert await everything(world) == [2, 4, 20]
        assert said(world.node("drainer"))["error"] == ""
        assert world.node("drainer").failures == []

    run(main, 1)


def test_a_ddl_whose_job_has_a_negative_id_stops_the_feed_with_its_name() -> None:
    async def main(world: World) -> None:
        await tidb(world)
        _, pump = await begin(world, OF_TIKV)
        binlog = Binlog(
            start_ts=19, commit_ts=20, ddl_query=b"CREATE DATABASE x", ddl_job_id=-6
        ).SerializeToString()
        pump.commit([*DDLS, (20, 19, binlog)], 20)
        await world.until(lambda: said(world.node("drainer")).get("error", "") != "", 60)
        assert "job -6" in str(said(world.node("drainer"))["error"])
        assert all(isinstance(one, TidelogError) for one in world.node("drainer").failures)

    run(main, 1)


def test_a_pd_that_can_not_be_asked_holds_the_feed_and_is_named() -> None:
    async def main(world: World) -> None:
        net, _ = await tidb(world)
        net.down |= {PD, NEXT}
        _, pump = await begin(world, OF_TIKV)
        pump.commit([*DDLS, txn(20)], 20)
        node = world.node("drainer")
        await world.until(lambda: "no PD that leads" in str(said(node)), 60, "the reason")
        net.down.clear()
        assert await everything(world) == [2, 4, 20]
        assert (node.starts, node.failures) == (1, [])

    run(main, 2)


def test_a_pd_of_another_cluster_gives_no_schema() -> None:
    async def main(world: World) -> None:
        await tidb(world)
        _, pump = await begin(world, msgspec.structs.replace(OF_TIKV, cluster_id=CLUSTER + 1))
        pump.commit([*DDLS, txn(20)], 20)
        node = world.node("drainer")
        named = f"the PD is of cluster {CLUSTER}, this one is {CLUSTER + 1}"
        await world.until(lambda: named in str(said(node)), 60, "the reason")
        stream = world.nats.streams[subjects.changes_stream("shop")]
        assert not [slot for slot in stream.slots if slot and ".row." in slot.message.subject]

    run(main, 3)


def test_without_pd_urls_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs to know where PD is"):
        load(DrainerConfig, "drainer", ["--ddl-history", "pd"], {})


def test_files_that_nothing_is_asked_with_are_refused() -> None:
    ca = ["--upstream-security-ssl-ca", "/ca.pem"]
    with pytest.raises(ConfigError, match="nothing is asked with them"):
        load(DrainerConfig, "drainer", [*ca, "--ddl-history", "http://tidb:10080"], {})
    config = load(DrainerConfig, "drainer", [*ca, "--ddl-history", "https://tidb:10080"], {})
    assert config.upstream.security.ssl_ca == "/ca.pem"
