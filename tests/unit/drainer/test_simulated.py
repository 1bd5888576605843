"""The real tree on the simulator: whatever fails, a reader gets each transaction once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tidelog import subjects
from tidelog.change_reader import Change, ChangeReader
from tidelog.kv import Bucket
from tidelog.messages import Consumer
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import (
    ColumnInfo,
    DBInfo,
    DdlJob,
    FieldType,
    HistoryInfo,
    Name,
    TableInfo,
)
from tidelog.sim.world import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.schema.structures import SCHEMAS_FILE
from tidelog_drainer.service import build
from tidelog_proto.binlog_pb2 import Binlog, Insert, PrewriteValue, TableMutation

TABLE = TableInfo(
    id=100,
    name=Name("t", "t"),
    cols=(ColumnInfo(1, Name("id", "id"), 0, FieldType(8, 4099)),),
    pk_is_handle=True,
)
CODEC = TableCodec(TABLE)


class OneTable:
    """A history of two jobs: the schema `app` and its table `t`."""

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        made = [
            DdlJob(1, 1, 9, 0, "app", binlog=HistoryInfo(1, DBInfo(9, Name("app", "app")))),
            DdlJob(2, 3, 9, 100, "app", "t", binlog=HistoryInfo(2, table_info=TABLE)),
        ]
        yield [job for job in made if job.id > after_job_id]


def txn(commit_ts: int, version: int = 2, rows: int = 1) -> Txn:
    """Its rows have the ids from `commit_ts` on."""
    ids = range(commit_ts, commit_ts + rows)
    made = [CODEC.encode_insert({"id": one}, one) for one in ids]
    mutation = TableMutation(table_id=100, inserted_rows=made, sequence=[Insert] * rows)
    value = PrewriteValue(schema_version=version, mutations=[mutation])
    binlog = Binlog(
        start_ts=commit_ts - 1, commit_ts=commit_ts, prewrite_value=value.SerializeToString()
    )
    return commit_ts, commit_ts - 1, binlog.SerializeToString()


DDLS: list[Txn] = [
    (
        ts,
        ts - 1,
        Binlog(
            start_ts=ts - 1, commit_ts=ts, ddl_query=query, ddl_job_id=job, ddl_schema_state=5
        ).SerializeToString(),
    )
    for ts, job, query in ((2, 1, b"CREATE DATABASE app"), (4, 2, b"CREATE TABLE t (id bigint)"))
]
COUNT = 400


async def workload(world: World, pumps: list[FakePump]) -> list[int]:
    """Commits on both Pumps at random times; a few on both."""
    rng = world.random("workload")
    pumps[0].commit(DDLS, 4)
    times = [2, 4]
    ts = 10
    for _ in range(COUNT):
        ts += rng.randrange(2, 9)
        times.append(ts)
        which = rng.randrange(2)
        pumps[which].commit([txn(ts)], ts)
        if rng.random() < 0.1:
            pumps[1 - which].commit([txn(ts)], ts)
        await world.sleep(rng.random() * 0.1)
    return times


async def trouble(world: World, registry: FakeRegistry) -> None:
    """Crashes of the Drainer and the server, a lost store, a lost tail."""
    rng = world.random("trouble")
    node = world.node("drainer")
    world.net.loss, world.net.duplicate, world.net.unknown = (
        rng.choice((0.0, 0.01)),
        rng.choice((0.0, 0.02)),
        rng.choice((0.0, 0.1)),
    )
    copy = world.nats.copy_store()
    for _ in range(6):
        await world.sleep(rng.random() * 4)
        match rng.randrange(5):
            case 0:
                node.kill(restart_after_s=rng.random())
            case 1:
                world.nats.stop()
                await world.sleep(rng.random() * 2)
                world.nats.start()
            case 2:
                world.nats.delete_store()
                await world.sleep(rng.random())
                await registry.again()
            case 3:
                copy = world.nats.copy_store()
            case 4:
                world.nats.roll_back(copy)
                await registry.again()


async def history(world: World) -> None:
    world.open_ddl_history = lambda url, bus: OneTable()
    bus = world.ports().bus
    registry = FakeRegistry(bus)
    await registry.start()
    pumps = [await registry.pump("p1"), await registry.pump("p2")]
    registry.consumers = [Consumer("reader", FEED, 0)]
    config = DrainerConfig(node_id="d1", cluster=CLUSTER, feed=FEED, lease_s=1.0)
    world.node("drainer").start(build, config)

    reader = ChangeReader(bus, FEED, 0)
    found: list[int] = []
    done = asyncio.Event()

    async def read() -> None:
        while not done.is_set():
            for change in await reader.next(0.5):
                found.extend(one.commit_ts for one in change.txns)
                registry.consumers = [Consumer("reader", FEED, change.commit_ts)]

    reading = asyncio.get_running_loop().create_task(read())
    failing = asyncio.get_running_loop().create_task(trouble(world, registry))
    times = await workload(world, pumps)
    await failing
    world.net.heal()
    for _ in range(600):
        if len(found) >= len(times) or reading.done():
            break
        await world.sleep(0.1)
    done.set()
    await reading
    await reader.close()
    assert found == times


@pytest.mark.parametrize("seed", range(12))
def test_each_transaction_once_whatever_fails(seed: int) -> None:
    run(history, seed)


@pytest.mark.parametrize("restarted", [False, True])
def test_an_early_ddl_needs_no_timestamp_of_its_own(restarted: bool) -> None:
    """The row that leads its DDL stands right behind another one, and behind a watermark. A new
    Drainer, too, knows that the DDL's own binlog is to be dropped."""
    second = ColumnInfo(2, Name("v", "v"), 1, FieldType(8, 0))
    wider = msgspec.structs.replace(TABLE, cols=(*(TABLE.cols or ()), second))

    class Wider(OneTable):
        async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
            async for page in super().jobs(after_job_id):
                yield page
            if after_job_id < 3:
                info = HistoryInfo(3, table_info=wider, finished_ts=99)
                yield [DdlJob(3, 5, 9, 100, query="ALTER", binlog=info)]

    row = TableCodec(wider).encode_insert({"id": 21, "v": 7}, 21)
    mutation = TableMutation(table_id=100, inserted_rows=[row], sequence=[Insert])
    value = PrewriteValue(schema_version=3, mutations=[mutation]).SerializeToString()
    leading = (21, 19, Binlog(start_ts=19, commit_ts=21, prewrite_value=value).SerializeToString())
    own = Binlog(start_ts=29, commit_ts=30, ddl_query=b"ALTER", ddl_job_id=3, ddl_schema_state=5)

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Wider()
        bus = world.ports().bus
        registry = FakeRegistry(bus)
        await registry.start()
        pump = await registry.pump("p1")
        registry.consumers = [Consumer("reader", FEED, 0)]
        node = world.node("drainer")
        node.start(build, DrainerConfig(node_id="d1", cluster=CLUSTER, feed=FEED, lease_s=1.0))
        reader = ChangeReader(bus, FEED, 0)
        found: list[Change] = []

        async def read_up_to(commit_ts: int) -> None:
            while not found or found[-1].commit_ts < commit_ts:
                found.extend(await reader.next())

        pump.commit([*DDLS, txn(20)], 20)
        await read_up_to(20)
        pump.commit([leading], 21)
        await read_up_to(21)
        if restarted:
            node.kill()
            node.restart()
        pump.commit([(30, 29, own.SerializeToString()), txn(40)], 40)
        await read_up_to(40)
        await reader.close()
        (early,) = [change for change in found if change.ddls and change.rows]
        assert [one.commit_ts for one in early.txns] == [21]
        assert [(ddl.commit_ts, ddl.schema_version, ddl.early) for ddl in early.ddls] == [
            (21, 3, True)
        ]
        assert early.rows[0].events[0].after == {"id": 21, "v": 7}
        times = [one.commit_ts for change in found for one in change.txns]
        assert times == [2, 4, 20, 21, 40]
        assert node.service.status()["publisher"]["dropped"] == {"early": 1}

    run(main, 1)


@pytest.mark.parametrize("how", ["deleted", "rolled back", "deleted while it is down"])
def test_a_lost_bucket_of_structures_is_written_again(how: str) -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: OneTable()
        bus = world.ports().bus
        registry = FakeRegistry(bus)
        await registry.start()
        pump = await registry.pump("p1")
        node = world.node("drainer")
        node.start(build, DrainerConfig(node_id="d1", cluster=CLUSTER, feed=FEED, lease_s=1.0))
        pump.commit([*DDLS, txn(20)], 20)
        bucket = Bucket(bus, subjects.schemas_bucket(FEED))

        def written() -> bool:
            stream = world.nats.streams.get(bucket.stream)
            return stream is not None and stream.messages > 0

        await world.until(written, 30, "the structures")
        kept = node.ports().disk.exists
        await world.until(lambda: kept(SCHEMAS_FILE), 3, "what was written to be remembered")
        if "down" in how:
            node.kill(restart_after_s=1)
        await bus.stream_delete(bucket.stream)
        if how == "rolled back":
            await bucket.create()
        assert not written()
        await world.until(written, 30, "the structures again")

    run(main, 1)
