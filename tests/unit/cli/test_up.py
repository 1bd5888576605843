"""`tidelog up`: what it finds out before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.upstream.fake_net import FakeNet
from tests.unit.upstream.fake_pd import CLUSTER, FakePd
from tidelog.errors import Unavailable
from tidelog.sim.world import World, run
from tidelog_cli import up
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


def test_a_pd_that_is_away_is_an_error_that_says_what_to_do() -> None:
    async def main(world: World) -> None:
        net = FakeNet()
        pd = FakePd(net, "pd1:2379")
        net.down.add("pd1:2379")
        with pytest.raises(Unavailable, match=r"cluster id is not known: .*pd1:2379") as caught:
            await up.with_cluster_id(options(pd.urls), net, world.clock())
        assert "--cluster-id" in str(caught.value)

    run(main, 1)
