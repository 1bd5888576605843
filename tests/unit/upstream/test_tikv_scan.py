"""The DDL history read from stores of TiKV: over regions, splits and locks in the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.fixtures import capture
from tests.unit.upstream.fake_net import Answer, FakeNet
from tests.unit.upstream.fake_pd import FakePd
from tests.unit.upstream.fake_tikv import STORES, FakeTikv, Lock
from tidelog.errors import Unavailable
from tidelog.sim import World, run
from tidelog.timestamps import compose
from tidelog.upstream.meta_history import MetaHistory
from tidelog.upstream.meta_keys import history_key
from tidelog.upstream.pd import PdClient
from tidelog.upstream.pd_oracle import PdOracle
from tidelog.upstream.tikv import TRY_S, TikvClient
from tidelog.upstream.tikv_scan import TikvScan
from tidelog_proto.kvrpcpb_pb2 import ScanResponse

START = compose(900)
JOBS = capture.ddl_history("set-a")
PRIMARY = b"m\0"
JOB_S = 0.02


class Bed:
    def __init__(self, world: World) -> None:
        self.net = FakeNet()
        self.pd = FakePd(self.net, "pd1:2379", "pd2:2379")
        self.tikv = FakeTikv(self.net, self.pd)
        for key, value in capture.meta_kv("set-a"):
            self.tikv.key(key).value = value
        clock = world.clock()
        pd = PdClient(self.net, clock, self.pd.urls)
        oracle = PdOracle(pd, clock)
        self.scan = TikvScan(TikvClient(self.net, pd, clock), oracle, clock)
        self.history = MetaHistory(self.scan, oracle, page=16)
        self.wide = MetaHistory(self.scan, oracle)

    async def ids(self) -> list[int]:
        return [job.id async for jobs in self.history.jobs(0) for job in jobs]

    def split(self, *at: bytes, version: int) -> None:
        bounds = list(zip((b"", *at), (*at, b""), strict=True))
        self.tikv.set_regions(bounds, version=version)

    def lock(self, key: bytes, primary: bytes) -> None:
        """A job that comes with a transaction which is under way."""
        value = self.tikv.key(key).value
        assert value is not None
        self.tikv.key(key).value = None
        self.tikv.key(key).lock = Lock(START, primary, value=value)


def play(body: Callable[[Bed], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        await body(Bed(world))

    run(main)


ALL = [job.id for job in JOBS]
LAST = history_key(ALL[-1])


def test_regions_end_anywhere_in_it() -> None:
    async def body(bed: Bed) -> None:
        ends = (history_key(ALL[3]), history_key(ALL[20]) + b"\0", history_key(ALL[100]))
        bed.split(*ends, version=2)
        bed.tikv.tell_pd()
        assert await bed.ids() == ALL

    play(body)


def test_what_is_committed_meanwhile_is_not_of_the_moment_that_is_read() -> None:
    async def body(bed: Bed) -> None:
        ids: list[int] = []
        async for jobs in bed.history.jobs(0):
            ids += [job.id for job in jobs]
            for job_id in range(ALL[-1] + 1, ALL[-1] + 4):
                key = bed.tikv.key(history_key(job_id))
                key.value, key.since = bed.tikv.key(LAST).value, compose(5000)
        assert ids == ALL

    play(body)


def test_jobs_so_wide_that_few_come_in_time_are_read_few_at_a_time() -> None:
    """2.5 MB each, over 1 Gbit/s."""

    async def body(bed: Bed) -> None:
        scanned: list[int] = []
        for store in STORES.values():
            bed.net.servers[store] = slowly(bed.net.servers[store], scanned)
        ids = [job.id async for jobs in bed.wide.jobs(0) for job in jobs]
        assert ids == ALL
        assert max(scanned) == 128
        late = sum(pairs * JOB_S > TRY_S for pairs in scanned)
        assert late <= len(ALL) / 30, "each time it asks for more than can come"

    def slowly(store: Answer, scanned: list[int]) -> Answer:
        async def answer(method: str, request: bytes) -> bytes:
            found = await store(method, request)
            if method == "KvScan":
                scanned.append(len(ScanResponse.FromString(found).pairs))
                await asyncio.sleep(scanned[-1] * JOB_S)
            return found

        return answer

    play(body)


def test_a_region_splits_and_its_leader_moves_between_two_pages() -> None:
    async def body(bed: Bed) -> None:
        ids: list[int] = []
        async for jobs in bed.history.jobs(0):
            ids += [job.id for job in jobs]
            bed.split(history_key(ids[-1] + 9), version=1 + len(ids))
            bed.tikv.leaders = dict.fromkeys(bed.tikv.leaders, 1 + len(ids) // 16 % 3)
        assert ids == ALL

    play(body)


def test_another_pd_leads_between_two_pages_and_the_first_is_gone() -> None:
    async def body(bed: Bed) -> None:
        ids: list[int] = []
        async for jobs in bed.history.jobs(0):
            ids += [job.id for job in jobs]
            bed.pd.leader = "pd2:2379"
            bed.net.down.add("pd1:2379")
        assert ids == ALL

    play(body)


def test_a_lock_of_a_transaction_that_was_rolled_back_is_read_past() -> None:
    async def body(bed: Bed) -> None:
        bed.lock(LAST, PRIMARY)
        bed.tikv.key(PRIMARY).roll_back(START)
        assert await bed.ids() == ALL[:-1]

    play(body)


@pytest.mark.parametrize("later", [False, True])
def test_a_lock_of_a_committed_transaction_is_read_through(later: bool) -> None:
    """`later`: it committed after the moment that is read, and is no part of it."""

    async def body(bed: Bed) -> None:
        bed.lock(LAST, PRIMARY)
        commit_ts = compose(2000) if later else compose(900, 1)
        bed.tikv.key(PRIMARY).commit(START, commit_ts)
        assert await bed.ids() == (ALL[:-1] if later else ALL)

    play(body)


def test_a_lock_of_a_dead_transaction_is_rolled_back_and_read_past() -> None:
    async def body(bed: Bed) -> None:
        bed.lock(LAST, LAST)
        lock = bed.tikv.key(LAST).lock
        assert lock is not None
        lock.alive = False
        assert await bed.ids() == ALL[:-1]

    play(body)


def test_a_lock_that_lives_is_waited_for() -> None:
    async def body(bed: Bed) -> None:
        bed.lock(LAST, PRIMARY)
        bed.tikv.key(PRIMARY).lock = Lock(START, PRIMARY)
        reading = asyncio.ensure_future(bed.ids())
        await asyncio.sleep(3)
        assert not reading.done()
        bed.tikv.key(PRIMARY).commit(START, compose(900, 1))
        assert await reading == ALL

    play(body)


def test_a_lock_that_lives_on_and_on_is_told_of() -> None:
    async def body(bed: Bed) -> None:
        bed.lock(LAST, PRIMARY)
        bed.tikv.key(PRIMARY).lock = Lock(START, PRIMARY)
        with pytest.raises(Unavailable, match=f"{LAST.hex()} has been locked"):
            await bed.ids()

    play(body)


def test_no_store_answers_for_a_minute() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        bed.net.silent.update(STORES.values())
        began = world.loop.time()
        while world.loop.time() < began + 60:
            with pytest.raises(Unavailable):
                await bed.ids()
        bed.net.silent.clear()
        assert await bed.ids() == ALL

    run(main)
