"""Rows of a new schema version stand behind their DDL, though its binlog comes late, or in another
order than its version, and the Drainer began anew in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence

import msgspec
import pytest

from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_doubts import WIDER, alter, ddls, read, wide
from tests.unit.drainer.test_simulated import CODEC, DDLS, TABLE, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, begin, said
from tidelog import changes, subjects
from tidelog.decode.ddls import MAX_BEHIND
from tidelog.feeds import Feed, Feeds
from tidelog.schema.model import DdlJob, HistoryInfo, Name, TableInfo
from tidelog.sim import Node
from tidelog.sim.world import World, run
from tidelog_drainer.decode.decoding import BEHIND_S, BEHIND_TS
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.service import build
from tidelog_proto.binlog_pb2 import Binlog, Insert, PrewriteValue, TableMutation

TOLD_AT = 41
"""When a client of ours had told the registry of its job."""
OTHER = msgspec.structs.replace(TABLE, id=200, name=Name("o", "o"))
THIRD = msgspec.structs.replace(TABLE, id=201, name=Name("p", "p"))
OTHER_WIDER = msgspec.structs.replace(WIDER, id=200, name=Name("o", "o"))
EMPTIED = msgspec.structs.replace(TABLE, id=101)


class Jobs(OneTable):
    def __init__(self, *jobs: DdlJob) -> None:
        super().__init__()
        self._jobs = jobs

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        pages = [page async for page in super().jobs(after_job_id)]
        pages.append([job for job in self._jobs if job.id > after_job_id])
        for page in filter(None, pages):  # an empty one is the end
            yield page


class Growing(Jobs):
    """Jobs enter it in another order than that of their ids and versions."""

    def __init__(self, *jobs: DdlJob) -> None:
        super().__init__(*jobs)
        self.asked: list[int] = []

    def add(self, *jobs: DdlJob) -> None:
        self._jobs = tuple(sorted((*self._jobs, *jobs), key=lambda one: one.id))

    def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        self.asked.append(after_job_id)
        return super().jobs(after_job_id)


def job(number: int, kind: int, info: TableInfo, finished_ts: int, *, ours: bool) -> DdlJob:
    """Of the schema version `number`."""
    binlog = HistoryInfo(number, table_info=info, finished_ts=finished_ts, told_before=ours)
    table_id = 200 if info.id == 200 else 100
    return DdlJob(number, kind, 9, table_id, "app", info.name.text, query="ALTER", binlog=binlog)


def ddl(commit_ts: int, number: int) -> Txn:
    made = Binlog(
        start_ts=commit_ts - 1,
        commit_ts=commit_ts,
        ddl_query=b"ALTER",
        ddl_job_id=number,
        ddl_schema_state=5,
    )
    return commit_ts, commit_ts - 1, made.SerializeToString()


def of_version(row: Txn, version: int) -> Txn:
    binlog = Binlog.FromString(bytes(row[2]))  # type: ignore[arg-type]
    value = PrewriteValue.FromString(binlog.prewrite_value)
    value.schema_version = version
    binlog.prewrite_value = value.SerializeToString()
    return row[0], row[1], binlog.SerializeToString()


def emptied(commit_ts: int) -> Txn:
    """A row of the table that TRUNCATE made."""
    row = CODEC.encode_insert({"id": commit_ts}, commit_ts)
    mutation = TableMutation(table_id=EMPTIED.id, inserted_rows=[row], sequence=[Insert])
    value = PrewriteValue(schema_version=3, mutations=[mutation]).SerializeToString()
    binlog = Binlog(start_ts=commit_ts - 1, commit_ts=commit_ts, prewrite_value=value)
    return commit_ts, commit_ts - 1, binlog.SerializeToString()


async def published(world: World, pump: FakePump, txns: Sequence[Txn], upto: int) -> Node:
    pump.commit(list(txns), upto)
    node = world.node("drainer")
    await world.until(lambda: said(node).get("published_ts", 0) >= upto, 30, "the feed")
    return node


async def restarted(world: World, node: Node) -> None:
    node.kill()
    node.start(build, CONFIG)
    await world.until(lambda: said(node).get("not_ready") == "", 30, "the next life")


@pytest.mark.parametrize("lives", [1, 2])
@pytest.mark.parametrize(("info", "kind", "row"), [(WIDER, 5, wide), (EMPTIED, 11, emptied)])
def test_of_a_writer_of_ours_whose_binlog_is_not_there_yet(
    lives: int, info: TableInfo, kind: int, row: Callable[[int], Txn]
) -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Jobs(job(3, kind, info, TOLD_AT, ours=True))
        _, pump = await begin(world)
        node = await published(world, pump, [*DDLS, txn(20)], 60)
        await read(world, 0, 60)  # the stream's watermark is above TOLD_AT
        for _ in range(lives - 1):
            await restarted(world, node)
        await published(world, pump, [row(65), alter(70), row(80)], 80)
        found = await read(world, 20, 80)
        assert ddls(found) == [(65, 3, True)]
        assert [one.commit_ts for one in found if one.rows] == [65, 80]

    run(main, 1)


def test_in_a_feed_that_begins_below_it() -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Jobs(job(3, 5, WIDER, TOLD_AT, ours=True))
        registry = FakeRegistry(world.ports().bus)
        feed = Feed(FEED, initial_commit_ts=30, created_ms=1)
        await Feeds(world.ports().bus, CLUSTER).ensure(feed)
        await registry.start()
        pump = await registry.pump("p1")
        world.node("drainer").start(build, CONFIG)
        await published(world, pump, [txn(35)], 36)
        await published(world, pump, [wide(65), alter(70), wide(80)], 80)
        assert ddls(await read(world, 30, 80)) == [(65, 3, True)]

    run(main, 1)


@pytest.mark.parametrize("lives", [1, 2, 3])
def test_whose_binlog_comes_behind_that_of_a_newer_one(lives: int) -> None:
    """Version 5 is of another table, and its binlog was there before that of version 4."""
    jobs = (
        job(3, 3, OTHER, 6, ours=False),
        job(4, 5, WIDER, 60, ours=False),
        job(5, 5, OTHER_WIDER, TOLD_AT, ours=False),
    )

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Jobs(*jobs)
        _, pump = await begin(world)
        first = [*DDLS, ddl(6, 3), txn(20), ddl(40, 5)]
        node = await published(world, pump, first, 40)
        for _ in range(lives - 1):
            await restarted(world, node)
        row = of_version(wide(42), 5)
        await published(world, pump, [row, ddl(45, 4), of_version(wide(70), 5)], 70)
        await restarted(world, node)
        await published(world, pump, [of_version(wide(75), 5)], 75)
        found = await read(world, 40, 75)
        assert ddls(found) == [(42, 4, True)], "each once, and ahead of the rows"
        assert [one.commit_ts for one in found if one.rows] == [42, 70, 75]

    run(main, 1)


@pytest.mark.parametrize("lives", [1, 2])
def test_one_that_a_newer_one_of_its_table_overtook_comes_in_its_own_place(lives: int) -> None:
    """Its client died; another one has renamed the table since, and rows are of that version."""
    renamed = msgspec.structs.replace(WIDER, name=Name("u", "u"))
    jobs = (job(3, 5, WIDER, 30, ours=True), job(4, 14, renamed, 35, ours=True))

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Jobs(*jobs)
        _, pump = await begin(world)
        node = await published(world, pump, [*DDLS, txn(20), ddl(40, 4)], 40)
        for _ in range(lives - 1):
            await restarted(world, node)
        await published(world, pump, [of_version(wide(50), 4)], 50)
        assert ddls(await read(world, 20, 50)) == [(40, 4, False)]

    run(main, 1)


@pytest.mark.parametrize(("ours", "named"), [(False, 0), (True, MAX_BEHIND)])
def test_a_long_history_does_not_go_into_a_header(ours: bool, named: int) -> None:
    """A feed that begins at 0 beside it: nats-server takes headers of 64 KiB."""
    count = 12_000
    history = [job(n, 5, OTHER_WIDER, 5, ours=ours) for n in range(4, count)]

    async def main(world: World) -> None:
        created = job(3, 3, OTHER, 5, ours=False)
        last = job(count, 5, WIDER, TOLD_AT, ours=ours)
        world.open_ddl_history = lambda url, bus: Jobs(created, *history, last)
        _, pump = await begin(world)
        await published(world, pump, [*DDLS, txn(20), ddl(40, count)], 40)
        stream = world.nats.streams[subjects.changes_stream(FEED)]
        headers = [slot.message.headers for slot in stream.slots if slot is not None]
        behind = [one.get(changes.H_PASSED, "").count(",") for one in headers]
        assert max(behind) == named

    run(main, 1)


# Jobs that run beside each other: a later id may have a lower version, and be done sooner.

CREATED = (  # o by version 3, p by version 5
    DdlJob(4, 3, 9, 200, "app", "o", query="CREATE", binlog=HistoryInfo(3, None, OTHER, 30)),
    DdlJob(5, 3, 9, 201, "app", "p", query="CREATE", binlog=HistoryInfo(5, None, THIRD, 41)),
)
ALTERED = DdlJob(3, 5, 9, 100, "app", "t", query="ALTER", binlog=HistoryInfo(4, None, WIDER, 46))


@pytest.mark.parametrize("late_s", [0.0, 0.4])
@pytest.mark.parametrize("version", [4, 5])
def test_whose_job_enters_the_history_behind_that_of_a_newer_one(
    version: int, late_s: float
) -> None:
    """The newest version known is that of the row, or above it."""
    created, last = CREATED

    async def main(world: World) -> None:
        history = Growing(created)
        world.open_ddl_history = lambda url, bus: history
        _, pump = await begin(world)
        await published(world, pump, [*DDLS, txn(20), ddl(25, 4)], 25)
        history.add(last)
        asyncio.get_running_loop().call_later(late_s, history.add, ALTERED)
        node = await published(world, pump, [of_version(wide(42), version), ddl(45, 3)], 45)
        found = await read(world, 25, 45)
        assert ddls(found) == [(42, 4, True)]
        rows = [event.after for one in found for message in one.rows for event in message.events]
        assert rows == [{"id": 42, "v": 7}]
        assert said(node)["schema"]["unknown_versions"] == 0

    run(main, 1)


@pytest.mark.parametrize("known", ["at once", "in the next life", "later in the next life"])
def test_whose_job_enters_the_history_when_a_newer_one_was_passed(known: str) -> None:
    async def main(world: World) -> None:
        history = Growing(*CREATED)
        world.open_ddl_history = lambda url, bus: history
        _, pump = await begin(world)
        node = await published(world, pump, [*DDLS, txn(20), ddl(25, 4), ddl(40, 5)], 40)
        if known != "later in the next life":
            history.add(ALTERED)
        if known != "at once":
            await restarted(world, node)
        if known == "later in the next life":
            history.add(ALTERED)
        await published(world, pump, [of_version(wide(42), 4), ddl(45, 3)], 45)
        found = await read(world, 25, 45)
        assert ddls(found) == [(40, 5, False), (42, 4, True)]
        rows = [event.after for one in found for message in one.rows for event in message.events]
        assert rows == [{"id": 42, "v": 7}]

    run(main, 1)


def test_versions_that_are_no_job_cost_one_wait() -> None:
    """ADD COLUMN takes several; rows have those between."""
    last = DdlJob(3, 5, 9, 100, query="ALTER", binlog=HistoryInfo(9, None, WIDER, 46))

    async def main(world: World) -> None:
        history = Growing(last)
        world.open_ddl_history = lambda url, bus: history
        _, pump = await begin(world)
        await published(world, pump, [*DDLS, txn(20)], 20)
        began, asked = world.ports().clock.monotonic(), len(history.asked)
        rows = [of_version(wide(20 + version), version) for version in range(3, 10)]
        node = await published(world, pump, rows, 29)
        assert world.ports().clock.monotonic() - began < 2 * BEHIND_S
        assert history.asked[asked:] == [3, 0], "what is new, then what finished late, once"
        assert said(node)["schema"]["unknown_versions"] == 0

    run(main, 1)


def test_versions_that_are_no_job_cost_a_backlog_one_look() -> None:
    """The history shows a job that was done long after theirs, so it lacks none of before."""
    last = DdlJob(3, 5, 9, 100, query="ALTER", binlog=HistoryInfo(9, None, WIDER, 46))
    other = DdlJob(4, 5, 9, 200, query="ALTER", binlog=HistoryInfo(14, None, OTHER, 47))
    later = job(200, 5, OTHER, 46 + 2 * BEHIND_TS, ours=False)

    async def main(world: World) -> None:
        history = Growing(last, other, later)
        world.open_ddl_history = lambda url, bus: history
        _, pump = await begin(world)
        await published(world, pump, [*DDLS, txn(20)], 20)
        asked = len(history.asked)
        rows = [of_version(wide(20 + version), version) for version in range(3, 10)]
        node = await published(world, pump, rows, 29)
        assert history.asked[asked:] == [200, 0]
        asked = len(history.asked)
        rows = [of_version(wide(20 + version), version) for version in range(11, 15)]
        await published(world, pump, rows, 34)
        assert history.asked[asked:] == []
        assert said(node)["schema"]["unknown_versions"] == 0

    run(main, 1)


def test_a_job_of_a_lower_id_is_looked_for_where_the_history_is_a_file_of_before_the_feed() -> None:
    """That the newer one was done long before the row tells nothing: it was not there either."""
    begin_ts = 10 * BEHIND_TS
    done_ts = begin_ts - 5 * BEHIND_TS
    missed = DdlJob(3, 5, 9, 100, query="ALTER", binlog=HistoryInfo(4, None, WIDER, done_ts))
    newer = DdlJob(6, 3, 9, 201, query="CREATE", binlog=HistoryInfo(5, None, THIRD, done_ts + 5))

    async def main(world: World) -> None:
        history = Growing(CREATED[0])
        world.open_ddl_history = lambda url, bus: history
        registry = FakeRegistry(world.ports().bus)
        feed = Feed(FEED, initial_commit_ts=begin_ts, created_ms=1)
        await Feeds(world.ports().bus, CLUSTER).ensure(feed)
        await registry.start()
        pump = await registry.pump("p1")
        world.node("drainer").start(build, CONFIG)
        await published(world, pump, [txn(begin_ts + 1)], begin_ts + 1)
        history.add(missed, newer)
        await published(world, pump, [of_version(wide(begin_ts + 10), 4)], begin_ts + 10)
        found = await read(world, begin_ts + 1, begin_ts + 10)
        rows = [event.after for one in found for message in one.rows for event in message.events]
        assert rows == [{"id": begin_ts + 10, "v": 7}]

    run(main, 1)


def test_a_job_that_came_while_the_history_was_read_page_by_page_is_looked_for() -> None:
    """The newest page was read first, an older one when a long job had ended."""
    newest = DdlJob(6, 3, 9, 200, query="CREATE", binlog=HistoryInfo(5, None, OTHER, 100))
    ended = HistoryInfo(6, None, THIRD, 100 + 3 * BEHIND_TS)
    long = DdlJob(3, 3, 9, 201, query="CREATE", binlog=ended)
    missed = DdlJob(5, 5, 9, 100, query="ALTER", binlog=HistoryInfo(4, None, WIDER, 101))

    async def main(world: World) -> None:
        history = Growing(long, newest)
        world.open_ddl_history = lambda url, bus: history
        _, pump = await begin(world)
        await published(world, pump, [*DDLS, txn(20)], 20)
        history.add(missed)
        await published(world, pump, [of_version(wide(42), 4)], 42)
        found = await read(world, 20, 42)
        rows = [event.after for one in found for message in one.rows for event in message.events]
        assert rows == [{"id": 42, "v": 7}]

    run(main, 1)


@pytest.mark.parametrize("told_by", ["its binlog", "a look for another"])
def test_a_job_that_came_too_late_for_its_rows_is_counted(told_by: str) -> None:
    created, last = CREATED

    async def main(world: World) -> None:
        history = Growing(created, last)
        world.open_ddl_history = lambda url, bus: history
        _, pump = await begin(world)
        early = [*DDLS, txn(20), ddl(25, 4), of_version(wide(42), 4)]
        node = await published(world, pump, early, 42)
        assert said(node)["schema"]["unknown_versions"] == 0
        history.add(ALTERED)
        if told_by == "its binlog":
            await published(world, pump, [ddl(45, 3)], 45)
        else:
            history.add(job(9, 5, OTHER, 44, ours=False))
            await published(world, pump, [of_version(wide(46), 9)], 46)
        assert said(node)["schema"]["unknown_versions"] == 1

    run(main, 1)
