"""`tidelog up`: what it finds out before anything starts."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.upstream.fake_net import FakeNet
from tests.unit.upstream.fake_pd import CLUSTER, FakePd
from tidelog.errors import Unavailable
from tidelog.sim.world import World, run
from tidelog_cli import state_file, up
from tidelog_cli.state_file import TopologyState
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
        behind_tls = options("https://pd1:2379")
        assert await up.with_cluster_id(behind_tls, net, world.clock()) is behind_tls
        without = options("")
        assert await up.with_cluster_id(without, net, world.clock()) is without
        assert net.calls.total() == calls

    run(main, 1)


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
