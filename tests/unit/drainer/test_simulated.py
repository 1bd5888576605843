"""The real tree on the simulator: whatever fails, a reader gets each transaction once, in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.integration.drainer.fakes import CLUSTER, FEED, FakePump, FakeRegistry
from tidelog import subjects
from tidelog.change_reader import ChangeReader
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
from tidelog_drainer.merger import Txn
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


def txn(commit_ts: int) -> Txn:
    row = CODEC.encode_insert({"id": commit_ts}, commit_ts)
    mutation = TableMutation(table_id=100, inserted_rows=[row], sequence=[Insert])
    value = PrewriteValue(schema_version=2, mutations=[mutation])
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
        if "down" in how:
            node.kill(restart_after_s=1)
        await bus.stream_delete(bucket.stream)
        if how == "rolled back":
            await bucket.create()
        assert not written()
        await world.until(written, 30, "the structures again")

    run(main, 1)
