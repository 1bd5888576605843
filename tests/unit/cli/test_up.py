"""`tidelog up`: what it finds out before anything starts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.upstream.fake_net import FakeNet
from tests.unit.upstream.fake_pd import CLUSTER, FakePd
from tidelog.errors import ConfigError, Unavailable
from tidelog.security.tls import TlsFiles
from tidelog.sim.world import World, run
from tidelog_cli import state_file, topology, up
from tidelog_cli.state_file import PumpAt, TopologyState
from tidelog_cli.topology import Options

DOWN = "blackhole:"


def options(urls: str, cluster_id: int = 0) -> Options:
    oracle = "pd" if urls else "embedded"
    return up.options(Path("d"), DOWN, oracle=oracle, pd_urls=urls, cluster_id=cluster_id)


def test_the_cluster_id_is_asked_of_pd_where_nobody_said_it() -> None:
    async def main(world: World) -> None:
        net = FakeNet()
        pd = FakePd(net, "pd1:2379", "pd2:2379")
        net.down.add("pd1:2379")
        found = await up.with_cluster_id(options(pd.urls), net, world.clock())
        assert found == options(pd.urls, CLUSTER)
        calls = net.calls.total()
        said = options(pd.urls, 7)
        assert await up.with_cluster_id(said, net, world.clock()) is said
        without = options("")
        assert await up.with_cluster_id(without, net, world.clock()) is without
        assert net.calls.total() == calls

    run(main, 1)


def test_the_files_for_tls_go_to_who_asks_the_upstream() -> None:
    tls = TlsFiles(ssl_ca="/ca", ssl_cert="/cert", ssl_key="/key")
    files = {f"upstream.security.ssl-{name}": f"/{name}" for name in ("ca", "cert", "key")}

    def asking(**more: str) -> set[str]:
        chosen = up.options(Path("d"), DOWN, upstream_tls=tls, **more)
        services = topology.plan(chosen, "nats://h:1", [PumpAt("pump-1", "h:2", "")])
        return {s.name for s in services if files.items() <= s.config.items()}

    urls = "https://pd1:2379"
    assert asking(oracle="pd", pd_urls=urls) == {"registry", "pump-1", "drainer"}
    assert asking(oracle="follow", ddl_history="https://tidb:10080") == {"drainer"}
    for wrong in ({"oracle": "pd", "pd_urls": "http://pd1:2379"}, {"oracle": "follow"}):
        with pytest.raises(ConfigError, match=r"http|nothing is asked"):
            asking(**wrong)
    with pytest.raises(ConfigError, match="no file vouches"):
        up.options(Path("d"), DOWN, oracle="pd", pd_urls=urls)


@pytest.mark.parametrize("feed", ["A b", "", "billing.v2"])
def test_what_is_no_name_of_a_feed_is_said_before_anything_starts(feed: str) -> None:
    with pytest.raises(ConfigError, match=f"^--feed: feed '{feed}': 1 to 63 of a-z"):
        up.options(Path("d"), DOWN, feed=feed)
    assert up.options(Path("d"), DOWN, feed="billing-v2").feed == "billing-v2"


@pytest.mark.parametrize("url", ["pd1:2379", " http://pd1:2379", "HTTP://pd1:2379"])
def test_a_pd_is_asked_in_whatever_form_it_is_named(url: str) -> None:
    async def main(world: World) -> None:
        net = FakeNet()
        FakePd(net, "pd1:2379")
        assert (await up.with_cluster_id(options(url), net, world.clock())).cluster_id == CLUSTER

    run(main, 1)


def test_a_directory_keeps_its_cluster_id(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        chosen = msgspec.structs.replace(options("http://pd1:2379"), directory=tmp_path)
        state_file.write(tmp_path, TopologyState("nats://h:1", "default", "main", cluster_id=7))
        found = await up.with_cluster_id(chosen, FakeNet(), world.clock())
        assert found.cluster_id == 7

    run(main, 1)


def test_a_pd_without_a_leader_knows_its_cluster() -> None:
    async def main(world: World) -> None:
        net = FakeNet()
        pd = FakePd(net, "pd1:2379")
        pd.believes = {"pd1:2379": ""}
        found = await up.with_cluster_id(options(pd.urls), net, world.clock())
        assert found.cluster_id == CLUSTER

    run(main, 1)


def test_a_pd_that_is_away_is_an_error_that_says_what_to_do() -> None:
    async def main(world: World) -> None:
        net = FakeNet()
        pd = FakePd(net, "pd1:2379")
        net.down.add("pd1:2379")
        with pytest.raises(Unavailable, match=r"cluster id is not known: .*pd1:2379") as caught:
            await up.with_cluster_id(options(pd.urls), net, world.clock())
        assert "--cluster-id" in str(caught.value)

    run(main, 1)
