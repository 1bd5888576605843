"""`ignore_error`: the application goes on, and what it skipped is told. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tests.unit.pump_client.fakes import Dice, FakeCluster, LoopClock, MemoryBus
from tidelog.errors import BadInput, Corrupt, DiskFull, IoFailed, NotOnline, TidelogError
from tidelog.pump_client import NotPrewritten, PumpClient
from tidelog.pump_client.skipping import FILE, OPEN_KEPT, Skipping
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.skipped import Skipped, from_key
from tidelog_proto.binlog_pb2 import Binlog, BinlogType, Commit, Prewrite, Rollback


class OneFile:
    """A disk with room for `skipping.json`; `error` is what a write meets."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.error: Exception | None = None

    def exists(self, path: str) -> bool:
        return self.data is not None

    def read_file(self, path: str) -> bytes:
        assert path == FILE
        assert self.data is not None
        return self.data

    async def write_file(self, path: str, data: bytes) -> None:
        if self.error is not None:
            raise self.error
        self.data = data


class Counter:
    """An oracle: far above what the tests give themselves."""

    def __init__(self) -> None:
        self.last = 1_000_000
        self.error: TidelogError | None = None

    async def fresh(self, at_least: int) -> int:
        if self.error is not None:
            raise self.error
        self.last = max(self.last, at_least) + 1
        return self.last


class Rig:
    """One cluster and its disk, for several lives of a client."""

    def __init__(self, *nodes: str) -> None:
        self.bus = MemoryBus()
        self.cluster = FakeCluster(self.bus, *nodes)
        self.disk = OneFile()
        self.oracle = Counter()

    def client(self, **changed: Any) -> PumpClient:
        settings: dict[str, Any] = {
            "ignore_error": True,
            "write_timeout_s": 1.0,
            "name": "shop",
            "oracle": self.oracle,
            "disk": self.disk,
        }
        return PumpClient(self.cluster.port, "c", 9, LoopClock(), Dice(), **(settings | changed))

    def refuse(self) -> None:
        for pump in self.cluster.pumps.values():
            pump.judge = lambda b: NotOnline("paused") if b.tp == Prewrite else None

    def take(self) -> None:
        for pump in self.cluster.pumps.values():
            pump.judge = lambda _: None

    @property
    def records(self) -> list[Skipped]:
        """What committed transactions of the log say was skipped, in order."""
        taken = self.cluster.journal
        said = {b.start_ts: from_key(b.prewrite_key) for b in taken if b.tp == Prewrite}
        ended = [said.get(b.start_ts) for b in taken if b.tp == Commit]
        return [record for record in ended if record is not None]


def play(rig: Rig, body: Callable[[PumpClient], Awaitable[None]], **changed: Any) -> None:
    async def main() -> None:
        await rig.cluster.start()
        async with rig.client(**changed) as client:
            await until(lambda: len(cast(list[str], client.status()["online"])) > 0)
            await body(client)

    run_loop(SimLoop(1), main())


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (any condition, virtual time)
            await asyncio.sleep(0.01)


async def transaction(client: PumpClient, start_ts: int, *, ddl: bool = False) -> None:
    await client.write(Binlog(tp=Prewrite, start_ts=start_ts, prewrite_key=b"k"))
    job = 7 if ddl else None
    await client.write(Binlog(tp=Commit, start_ts=start_ts, commit_ts=start_ts + 5, ddl_job_id=job))


def test_transactions_go_on_and_the_gap_is_told_once_a_pump_takes_it() -> None:
    rig = Rig("p1", "p2")

    async def body(client: PumpClient) -> None:
        await transaction(client, 10)
        rig.refuse()
        for start_ts in range(20, 60, 10):
            await transaction(client, start_ts, ddl=start_ts == 30)
        assert client.skipping
        assert rig.records == []
        status = cast(dict[str, object], client.status()["skipping"])
        assert status["transactions"] == 4
        assert "NotOnline" in str(status["reason"])
        rig.take()
        await until(lambda: len(rig.records) == 1)
        record = rig.records[0]
        assert (record.client, record.transactions, record.ddls) == ("shop", 4, 1)
        assert (record.from_ts, record.to_ts, record.at_least) == (20, 55, False)
        assert client.skipping, "it goes on until recover()"
        await transaction(client, 60)
        client.recover()
        await until(lambda: len(rig.records) == 2)
        assert rig.records[1].transactions == 1
        await transaction(client, 70)
        assert await client.flush(5)
        assert [b.start_ts for b in rig.cluster.journal if b.tp == Commit][-1] == 70
        assert len(rig.records) == 2

    play(rig, body)


def test_a_skipping_client_answers_at_once() -> None:
    rig = Rig("p1")

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        began = asyncio.get_running_loop().time()
        for start_ts in range(20, 220, 10):
            await transaction(client, start_ts)
        assert asyncio.get_running_loop().time() == began

    play(rig, body)


def test_what_had_an_acked_prewrite_is_committed_as_ever() -> None:
    rig = Rig("p1", "p2")

    async def body(client: PumpClient) -> None:
        await client.write(Binlog(tp=Prewrite, start_ts=10))
        pump = rig.cluster.pumps[client.pump_of(10)]
        rig.refuse()
        await transaction(client, 20)
        assert client.skipping
        await client.write(Binlog(tp=Commit, start_ts=10, commit_ts=11), wait=True)
        assert pump.of(10) == ["Prewrite", "Commit"]
        assert cast(dict[str, object], client.status()["skipping"])["transactions"] == 1

    play(rig, body)


def test_what_is_rolled_back_is_no_gap() -> None:
    rig = Rig("p1")

    async def body(client: PumpClient) -> None:
        rig.cluster.pumps["p1"].judge = lambda b: "silent" if b.tp == Prewrite else None
        await client.write(Binlog(tp=Prewrite, start_ts=10), deadline_s=1)
        assert client.skipping
        await client.write(Binlog(tp=Rollback, start_ts=10), wait=True)
        assert rig.cluster.pumps["p1"].of(10)[-1] == "Rollback"
        rig.take()
        await asyncio.sleep(40)
        assert rig.records == []

    play(rig, body)


def test_a_restart_tells_what_the_last_life_left() -> None:
    rig = Rig("p1")

    async def first(client: PumpClient) -> None:
        rig.refuse()
        for start_ts in (10, 20):
            await transaction(client, start_ts)
        await asyncio.sleep(1)

    async def second(client: PumpClient) -> None:
        assert not client.skipping
        rig.take()
        await until(lambda: len(rig.records) == 1)
        assert (rig.records[0].transactions, rig.records[0].at_least) == (2, True)
        assert (rig.records[0].from_ts, rig.records[0].to_ts) == (10, 25)

    async def third(client: PumpClient) -> None:
        await asyncio.sleep(30)
        assert len(rig.records) == 1

    for body in (first, second, third):
        play(rig, body)


def test_a_crash_right_after_the_first_is_told_as_at_least_none() -> None:
    """The commit was not counted yet when the process ended: the failed Prewrite was."""
    rig = Rig("p1")

    async def first(client: PumpClient) -> None:
        rig.refuse()
        await client.write(Binlog(tp=Prewrite, start_ts=10))

    async def second(client: PumpClient) -> None:
        rig.take()
        await until(lambda: len(rig.records) == 1)
        assert (rig.records[0].transactions, rig.records[0].at_least) == (0, True)

    play(rig, first)
    play(rig, second)


def test_what_is_skipped_behind_a_record_is_known_to_the_next_life() -> None:
    """Until `recover()` nothing is written, however long Pumps are well again: the disk said that
    all was told, and what followed within half a second of the end was in no record at all."""
    rig = Rig("p1")

    async def first(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        rig.take()
        await until(lambda: len(rig.records) == 1)
        await asyncio.sleep(15)
        for start_ts in (60, 70):
            await transaction(client, start_ts)

    async def second(client: PumpClient) -> None:
        await until(lambda: len(rig.records) == 2)
        assert (rig.records[1].transactions, rig.records[1].at_least) == (2, True)
        assert (rig.records[1].from_ts, rig.records[1].to_ts) == (65, 75)

    async def third(client: PumpClient) -> None:
        await asyncio.sleep(30)
        assert len(rig.records) == 2

    for body in (first, second, third):
        play(rig, body)


@pytest.mark.parametrize("recovered", [False, True])
def test_one_that_is_open_is_known_to_who_comes_after_a_crash(recovered: bool) -> None:
    """Its commit is counted half a second after it happened, or not any more. A Pump that is well
    again, or `recover()`, is no reason to forget it."""
    rig = Rig("p1")
    left = b""

    async def first(client: PumpClient) -> None:
        nonlocal left
        rig.refuse()
        await client.write(Binlog(tp=Prewrite, start_ts=10, prewrite_key=b"k"))
        await client.write(Binlog(tp=Prewrite, start_ts=20, prewrite_key=b"k"))
        rig.take()
        if recovered:
            client.recover()
        await client.write(Binlog(tp=Commit, start_ts=20, commit_ts=25))
        await until(lambda: len(rig.records) == 1)
        await asyncio.sleep(15)
        assert len(rig.records) == 1
        assert rig.disk.data is not None
        left = rig.disk.data
        client.recover()
        await client.write(Binlog(tp=Rollback, start_ts=10))
        await asyncio.sleep(1)

    async def second(client: PumpClient) -> None:
        await asyncio.sleep(15)
        assert len(rig.records) == 1, "no more could follow"

    async def after_a_crash(client: PumpClient) -> None:
        await until(lambda: len(rig.records) == 2)
        assert (rig.records[1].transactions, rig.records[1].at_least) == (0, True)
        assert rig.records[1].from_ts == 25, "what the last record told"

    play(rig, first)
    play(rig, second)
    rig.disk.data = left
    play(rig, after_a_crash)


def test_of_those_that_never_end_the_oldest_are_let_go_of() -> None:
    skipping = Skipping("shop", None)
    for start_ts in range(OPEN_KEPT + 10):
        skipping.passed(start_ts)
    assert len(skipping._open) == OPEN_KEPT


def test_a_record_cut_between_its_phases_is_rolled_back_and_told_again() -> None:
    rig = Rig("p1")

    async def first(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        rig.cluster.pumps["p1"].judge = lambda b: "lost" if b.tp == Commit else None
        client.recover()
        await until(lambda: bool(rig.cluster.journal))
        await asyncio.sleep(2)

    async def second(client: PumpClient) -> None:
        rig.take()
        await until(lambda: len(rig.records) == 1)
        pump = rig.cluster.pumps["p1"]
        (cut, told) = dict.fromkeys(b.start_ts for b in pump.taken)
        assert pump.of(cut) == ["Prewrite", "Rollback"]
        assert pump.of(told) == ["Prewrite", "Commit"]

    play(rig, first)
    play(rig, second)


def test_a_recorder_that_is_started_again_takes_no_commit_back() -> None:
    """One Pump may hold the Prewrite and did not ack it; the other one's Commit gets lost."""
    rig = Rig("p1", "p2")
    journal, pumps = rig.cluster.journal, rig.cluster.pumps

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        pumps["p1"].judge = lambda b: "silent" if b.tp == Prewrite else None
        pumps["p2"].judge = lambda b: "lost" if b.tp == Commit else None
        await until(lambda: any(b.tp == Prewrite for b in pumps["p2"].taken))
        record = next(b.start_ts for b in pumps["p2"].taken if b.tp == Prewrite)
        await asyncio.sleep(1)
        rig.disk.error = RuntimeError("the recorder crashes as it keeps the next count")
        await transaction(client, 20)
        await asyncio.sleep(0.6)
        rig.disk.error = None
        await asyncio.sleep(10)
        assert {b.tp for b in journal if b.start_ts == record} == {Prewrite}
        rig.take()
        await until(lambda: len(rig.records) == 2)
        assert await client.flush(5)
        assert "Rollback" not in pumps["p2"].of(record)
        ends = [b.tp for b in journal if b.start_ts == record and b.tp != Prewrite]
        assert ends[0] == Commit
        assert set(ends[1:]) <= {Commit, Rollback}
        assert [r.transactions for r in rig.records] == [1, 1]

    play(rig, body)


def test_no_commit_ts_no_record_until_the_oracle_answers() -> None:
    rig = Rig("p1")

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        rig.take()
        rig.oracle.error = DiskFull("no timestamps")
        client.recover()
        await asyncio.sleep(20)
        assert rig.records == []
        rig.oracle.error = None
        await until(lambda: len(rig.records) == 1)
        kinds = [BinlogType.Name(b.tp) for b in rig.cluster.journal]
        assert kinds.count("Prewrite") == kinds.count("Commit") + kinds.count("Rollback")

    play(rig, body)


def test_a_record_without_a_commit_ts_is_rolled_back_and_told_again() -> None:
    class Once(Counter):
        """Gives no timestamp above another one the first time."""

        asked = 0

        async def fresh(self, at_least: int) -> int:
            self.asked += bool(at_least)
            if at_least and self.asked == 1:
                raise DiskFull("no timestamps")
            return await super().fresh(at_least)

    rig = Rig("p1")
    rig.oracle = Once()

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        rig.take()
        client.recover()
        await until(lambda: len(rig.records) == 1)
        assert await client.flush(5)
        pump = rig.cluster.pumps["p1"]
        (cut, told) = dict.fromkeys(b.start_ts for b in pump.taken)
        assert pump.of(cut) == ["Prewrite", "Rollback"]
        assert pump.of(told) == ["Prewrite", "Commit"]
        assert rig.records[0].transactions == 1

    play(rig, body)


def test_a_record_whose_commit_is_refused_is_told_again() -> None:
    rig = Rig("p1")
    refusals = [BadInput("no such Prewrite")]

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        rig.cluster.pumps["p1"].judge = lambda b: (
            refusals.pop() if b.tp == Commit and refusals else None
        )
        client.recover()
        await until(lambda: len(rig.records) == 1)
        assert (refusals, rig.records[0].transactions) == ([], 1)
        assert cast(dict[str, object], client.status()["skipping"])["untold"] == ""

    play(rig, body)


def test_a_disk_that_fails_does_not_stop_it() -> None:
    rig = Rig("p1")

    async def body(client: PumpClient) -> None:
        rig.disk.error = IoFailed("fsync")
        rig.refuse()
        await transaction(client, 10)
        assert "fsync" in str(cast(dict[str, object], client.status()["skipping"])["error"])
        rig.take()
        await until(lambda: len(rig.records) == 1)

    play(rig, body)


def test_a_damaged_file_is_named() -> None:
    rig = Rig("p1")
    rig.disk.data = b"{"

    async def body(client: PumpClient) -> None: ...

    with pytest.raises(Corrupt, match=FILE):
        play(rig, body)


def test_a_commit_nobody_prewrote_is_an_error_before_anything_failed() -> None:
    rig = Rig("p1")

    async def body(client: PumpClient) -> None:
        with pytest.raises(NotPrewritten):
            await client.write(Binlog(tp=Commit, start_ts=10, commit_ts=11))

    play(rig, body)
