"""What TiKV says of a transaction: alive, expired, committed, rolled back; regions that split and
move, stores that say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.upstream.fake_net import FakeNet, served
from tests.unit.upstream.fake_pd import FakePd
from tests.unit.upstream.fake_tikv import STORES, FakeTikv, Lock
from tidelog.errors import Unavailable
from tidelog.ports import Verdict
from tidelog.real.clock import RealClock
from tidelog.real.grpc_rpc import GrpcRpc
from tidelog.sim import World, run
from tidelog.timestamps import compose
from tidelog.upstream.pd import PdClient
from tidelog.upstream.pd_oracle import PdOracle
from tidelog.upstream.tikv import ASK_S, TikvClient
from tidelog.upstream.tikv_txn_status import TikvTxnStatus
from tidelog_proto.kvrpcpb_pb2 import MvccWrite, Put
from tidelog_proto.metapb_pb2 import Store

START = compose(900)
COMMIT = compose(900, 7)
PRIMARY = b"t\x80\0\0\0\0\0\0\x40_r\x80\0\0\0\0\0\0\x01"
UNDECIDED, ROLLED_BACK = Verdict("undecided"), Verdict("rolled_back")
COMMITTED = Verdict("committed", COMMIT)


class Bed:
    def __init__(self, world: World) -> None:
        self.net = FakeNet()
        self.pd = FakePd(self.net, "pd1:2379")
        self.tikv = FakeTikv(self.net, self.pd)
        clock = world.clock()
        pd = PdClient(self.net, clock, self.pd.urls)
        self.status = TikvTxnStatus(TikvClient(self.net, pd, clock), pd, PdOracle(pd, clock))
        self.key = self.tikv.key(PRIMARY)

    async def ask(self, *, force: bool = False) -> Verdict:
        return await self.status.verdict(START, PRIMARY, force=force)

    def checks(self) -> int:
        return sum(n for (_, method), n in self.net.calls.items() if method == "KvCheckTxnStatus")


def play(body: Callable[[Bed], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        await body(Bed(world))

    run(main)


@pytest.mark.parametrize("force", [False, True])
def test_what_is_decided_is_read_and_nothing_is_changed(force: bool) -> None:
    async def body(bed: Bed) -> None:
        bed.key.commit(START, COMMIT)
        assert await bed.ask(force=force) == COMMITTED
        bed.key.writes.clear()
        bed.key.roll_back(START)
        assert await bed.ask(force=force) == ROLLED_BACK
        bed.key.writes[:] = [
            MvccWrite(type=Put, start_ts=1, commit_ts=START, has_overlapped_rollback=True)
        ]
        assert await bed.ask(force=force) == ROLLED_BACK
        assert bed.checks() == 0

    play(body)


@pytest.mark.parametrize("lock", [None, Lock(START, PRIMARY), Lock(START, PRIMARY, alive=False)])
def test_before_its_time_nothing_is_forced(lock: Lock | None) -> None:
    async def body(bed: Bed) -> None:
        bed.key.lock = lock
        bed.key.writes.append(MvccWrite(type=Put, start_ts=1, commit_ts=START))
        assert await bed.ask() == UNDECIDED
        assert bed.checks() == 0
        assert bed.key.lock is lock

    play(body)


def test_a_lock_that_lives_is_waited_for() -> None:
    async def body(bed: Bed) -> None:
        bed.key.lock = Lock(START, PRIMARY)
        assert await bed.ask(force=True) == UNDECIDED
        bed.key.commit(START, COMMIT)
        assert await bed.ask(force=True) == COMMITTED

    play(body)


def test_a_lock_whose_time_is_over_is_rolled_back() -> None:
    async def body(bed: Bed) -> None:
        bed.key.lock = Lock(START, PRIMARY, alive=False)
        bed.pd.safe_point = START + 1
        assert await bed.ask(force=True) == ROLLED_BACK
        assert await bed.ask() == ROLLED_BACK

    play(body)


def test_without_its_key_nothing_is_said_of_a_transaction() -> None:
    """Its segment is gone. TiKV would answer for the empty key that it never was, and a Pump would
    roll back what was committed."""

    async def body(bed: Bed) -> None:
        bed.key.commit(START, COMMIT)
        assert await bed.status.verdict(START, b"", force=True) == UNDECIDED
        assert bed.checks() == 0

    play(body)


def test_a_transaction_that_never_came_is_kept_from_coming() -> None:
    async def body(bed: Bed) -> None:
        assert await bed.ask(force=True) == ROLLED_BACK
        assert [write.start_ts for write in bed.key.writes] == [START]

    play(body)


def test_where_versions_were_collected_a_missing_one_tells_nothing() -> None:
    async def body(bed: Bed) -> None:
        bed.pd.safe_point = START
        assert await bed.ask(force=True) == UNDECIDED
        assert not bed.key.writes

    play(body)


def test_versions_collected_during_the_check_tell_nothing_either() -> None:
    async def body(bed: Bed) -> None:
        bed.pd.safe_point = START - 1
        bed.pd.safe_point_after = START
        assert await bed.ask(force=True) == UNDECIDED

    play(body)


def test_a_lock_of_an_asynchronous_commit_decides_nothing() -> None:
    async def body(bed: Bed) -> None:
        bed.key.lock = Lock(START, PRIMARY, alive=False, async_commit=True)
        assert await bed.ask(force=True) == UNDECIDED

    play(body)


def test_a_region_that_splits_is_followed_before_pd_hears_of_it() -> None:
    async def body(bed: Bed) -> None:
        bed.key.commit(START, COMMIT)
        bed.tikv.set_regions([(b"", PRIMARY), (PRIMARY, b"")], version=2)
        assert await bed.ask() == COMMITTED
        bed.tikv.set_regions([(b"", PRIMARY + b"\0"), (PRIMARY + b"\0", b"")], version=3)
        bed.tikv.tell_pd()
        assert await bed.ask() == COMMITTED
        # Where what PD keeps differs from the key itself.
        bed.tikv.set_regions([(b"", b"t\x80"), (b"t\x80", PRIMARY), (PRIMARY, b"")], version=4)
        bed.tikv.tell_pd()
        assert await bed.ask() == COMMITTED

    play(body)


@pytest.mark.parametrize("told", [True, False])
def test_another_leader_of_the_region_is_found(told: bool) -> None:
    async def body(bed: Bed) -> None:
        bed.key.commit(START, COMMIT)
        bed.tikv.told = told
        bed.tikv.leaders = {10: 3}
        assert await bed.ask() == COMMITTED

    play(body)


def test_a_store_that_died_is_passed_by_and_one_that_came_is_heard_of() -> None:
    async def body(bed: Bed) -> None:
        bed.key.commit(START, COMMIT)
        bed.net.down.add(STORES[1])
        bed.tikv.leaders = {10: 2}
        assert await bed.ask() == COMMITTED
        bed.net.servers["kv9:20160"] = bed.net.servers[STORES[2]]
        bed.net.down.update(STORES.values())
        bed.pd.stores[2] = Store(id=2, address="kv9:20160")
        assert await bed.ask() == COMMITTED

    play(body)


def test_a_region_whose_peers_all_moved_is_asked_of_pd_again() -> None:
    async def body(bed: Bed) -> None:
        bed.key.commit(START, COMMIT)
        bed.net.down.update(STORES.values())
        asking = asyncio.ensure_future(bed.ask())
        await asyncio.sleep(1)
        bed.net.servers["kv4:20160"] = bed.tikv.server(4)
        bed.pd.stores[4] = Store(id=4, address="kv4:20160")
        bed.tikv.regions[0].peers.add(id=1004, store_id=4)
        bed.tikv.leaders = {10: 4}
        bed.tikv.tell_pd()
        assert await asking == COMMITTED

    play(body)


def test_no_answer_for_a_minute_leaves_it_undecided_until_then() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        bed.key.commit(START, COMMIT)
        bed.net.silent.update(STORES.values())
        began, asked = world.loop.time(), 0
        while world.loop.time() < began + 60:
            with pytest.raises(Unavailable, match=PRIMARY.hex()):
                await bed.ask(force=True)
            asked += 1
            assert world.loop.time() - began < asked * (ASK_S + 5)
        bed.net.silent.clear()
        assert await bed.ask(force=True) == COMMITTED

    run(main)


def test_over_grpc_as_well() -> None:
    async def main() -> None:
        net, rpc = FakeNet(), GrpcRpc()
        fake = FakePd(net)
        tikv = FakeTikv(net, fake)
        tikv.key(PRIMARY).commit(START, COMMIT)
        store = net.servers[STORES[1]]
        async with served(net, fake.server), served(net, lambda _: store) as address:
            fake.stores[1].address = address
            pd = PdClient(rpc, RealClock(), fake.urls)
            oracle = PdOracle(pd, RealClock())
            status = TikvTxnStatus(TikvClient(rpc, pd, RealClock()), pd, oracle)
            assert await status.verdict(START, PRIMARY, force=False) == COMMITTED
            assert await status.verdict(START + 1, PRIMARY, force=True) == ROLLED_BACK
            oracle.close()
            await rpc.close()

    asyncio.run(main())
