"""Timestamps of a PD whose leader changes, falls silent, or is another cluster's."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.unit.upstream.fake_net import FakeNet, served
from tests.unit.upstream.fake_pd import CLUSTER, FakePd
from tidelog.errors import ConfigError, ForeignCluster, InvariantBroken, Unavailable
from tidelog.real.clock import RealClock
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.sim import World, run
from tidelog.timestamps import compose
from tidelog.upstream import pd_oracle
from tidelog.upstream.pd import TRY_S, PdClient
from tidelog.upstream.pd_oracle import PdOracle
from tidelog.upstream.pd_urls import addresses
from tidelog_proto.pdpb_pb2 import TsoRequest

NAMES = ("pd1:2379", "pd2:2379", "pd3:2379")


class Bed:
    def __init__(self, world: World, *, cluster_id: int = CLUSTER) -> None:
        self.net = FakeNet()
        self.pd = FakePd(self.net, *NAMES)
        self.client = PdClient(self.net, world.clock(), self.pd.urls, cluster_id=cluster_id)
        self.oracle = PdOracle(self.client, world.clock())


def test_who_waits_is_asked_for_at_once_on_one_stream() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        given = await asyncio.gather(*(bed.oracle.fresh(0) for _ in range(100)))
        assert sorted(given) == [compose(1000, n) for n in range(1, 101)]
        assert bed.pd.counts == [1, 99]
        assert bed.net.streams == 1

    run(main)


@pytest.mark.parametrize("believes", [True, False])
def test_another_leader_gives_the_next(believes: bool) -> None:
    """`believes`: the old one takes itself for the leader for a while."""

    async def main(world: World) -> None:
        bed = Bed(world)
        first = await bed.oracle.fresh(0)
        bed.pd.leader = NAMES[1]
        if believes:
            bed.pd.believes[NAMES[0]] = NAMES[0]
        began = world.loop.time()
        assert await bed.oracle.fresh(0) == first + 1
        assert world.loop.time() - began < TRY_S
        assert bed.net.calls[NAMES[1], "Tso"] == 1

    run(main)


def test_a_leader_that_dies_in_mid_stream_takes_its_answers_with_it() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        first = await bed.oracle.fresh(0)
        bed.net.silent.add(NAMES[0])
        waiting = [asyncio.ensure_future(bed.oracle.fresh(0)) for _ in range(5)]
        await world.sleep(0.5)
        bed.pd.leader = NAMES[2]
        given = await asyncio.gather(*waiting)
        assert len(set(given)) == 5
        # What the first one had allocated for the request that nobody answered is nobody's.
        assert bed.pd.counts[:2] == [1, 1]
        assert min(given) > first + 1

    run(main)


def test_a_server_whose_answer_is_none_is_passed_by() -> None:
    async def main(world: World) -> None:
        async def nonsense(_method: str, _request: bytes) -> bytes:
            return b"\xff"

        bed = Bed(world)
        bed.pd.leader = NAMES[1]
        bed.net.servers[NAMES[0]] = nonsense
        assert await bed.oracle.fresh(0) > 0
        alone = PdClient(bed.net, world.clock(), f"http://{NAMES[0]}")
        with pytest.raises(Unavailable, match=r"no pdpb\.GetMembersResponse"):
            await alone.leader()

    run(main)


def test_no_answer_for_a_minute() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.oracle.fresh(0)
        bed.net.silent.update(NAMES)
        began, refused = world.loop.time(), 0
        while world.loop.time() < began + 60:
            with pytest.raises(Unavailable, match="PD"):
                await bed.oracle.fresh(0)
            refused += 1
            assert world.loop.time() - began < refused * (pd_oracle.REQUEST_S + 4)
        before = bed.pd.logical
        bed.net.silent.clear()
        assert await bed.oracle.fresh(0) > compose(1000, before)

    run(main)


def test_whose_call_was_cancelled_leaves_no_answer_for_another() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.oracle.fresh(0)
        bed.net.silent.add(NAMES[0])
        cancelled = asyncio.ensure_future(bed.oracle.fresh(0))
        await world.sleep(0.1)
        allocated = bed.pd.logical
        cancelled.cancel()
        await asyncio.wait([cancelled])
        bed.net.silent.clear()
        assert await bed.oracle.fresh(0) > compose(1000, allocated)

    run(main)


def test_another_cluster_gives_nothing() -> None:
    async def main(world: World) -> None:
        with pytest.raises(ForeignCluster, match="7613"):
            await Bed(world, cluster_id=9).oracle.fresh(0)
        bed = Bed(world, cluster_id=0)
        await bed.oracle.fresh(0)
        assert bed.client.cluster_id == CLUSTER
        bed.pd.cluster_id = 5
        with pytest.raises(ForeignCluster, match="5"):
            await bed.oracle.fresh(0)

    run(main)


def test_a_clock_that_goes_back_is_not_believed() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.oracle.fresh(0)
        bed.pd.logical = 0
        with pytest.raises(InvariantBroken, match="after it had given"):
            await bed.oracle.fresh(0)

    run(main)


def test_an_answer_to_another_count_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """One fewer than were asked for: the last of them would be somebody else's."""
    asked = FakePd._Tso

    def one_fewer(self: FakePd, request: bytes) -> bytes:
        count = TsoRequest.FromString(request).count - 1
        return asked(self, TsoRequest(count=count).SerializeToString())

    async def main(world: World) -> None:
        bed = Bed(world)
        monkeypatch.setattr(FakePd, "_Tso", one_fewer)
        with pytest.raises(Unavailable, match="where 9 were asked for"):
            await bed.oracle.take(9)

    run(main)


def test_a_server_that_is_gone_is_not_needed_to_find_the_others() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        only = PdClient(bed.net, world.clock(), NAMES[1])
        bed.net.down.add(NAMES[2])
        assert await only.leader() == NAMES[0]
        bed.net.down.add(NAMES[1])
        bed.net.down.remove(NAMES[2])
        bed.pd.leader = NAMES[2]
        only.leave(NAMES[0])
        assert await only.leader() == NAMES[2]

    run(main)


@pytest.mark.parametrize(
    "urls",
    [
        "",
        "pd1",
        "ftp://pd1:2379",
        "http://:2379",
        "http://pd1:2379,x",
        "http://pd1:many",
        "http://[::1:2379",
    ],
)
def test_urls_that_are_none_are_named(urls: str) -> None:
    with pytest.raises(ConfigError, match="pd-urls"):
        addresses(urls)


def test_over_grpc_as_well() -> None:
    async def main() -> None:
        net, rpc = FakeNet(), GrpcRpc()
        pd = FakePd(net)
        async with AsyncExitStack() as stack:
            for _ in range(2):
                await stack.enter_async_context(served(net, pd.server))
            oracle = PdOracle(PdClient(rpc, RealClock(), pd.urls), RealClock())
            first = await asyncio.gather(*(oracle.fresh(0) for _ in range(50)))
            pd.leader = pd.addresses[1]
            second = await asyncio.gather(*(oracle.fresh(0) for _ in range(50)))
            assert len({*first, *second}) == 100
            assert max(first) < min(second)
            oracle.close()
            await rpc.close()

    asyncio.run(main())
