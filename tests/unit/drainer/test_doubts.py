"""A stream is lost, its position between a DDL's binlog and its FinishedTS (doubts.py)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.integration.drainer.fakes import FEED, FakePump, FakeRegistry
from tests.unit.drainer.test_simulated import DDLS, TABLE, OneTable, txn
from tests.unit.drainer.test_stops import CONFIG, begin, said
from tidelog import subjects
from tidelog.change_reader import Change, ChangeReader
from tidelog.messages import Consumer
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import ColumnInfo, DdlJob, FieldType, HistoryInfo, Name
from tidelog.sim.world import World, run
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.service import build
from tidelog_proto.binlog_pb2 import Binlog, Insert, PrewriteValue, TableMutation

WIDER = msgspec.structs.replace(
    TABLE, cols=(*(TABLE.cols or ()), ColumnInfo(2, Name("v", "v"), 1, FieldType(8, 0)))
)
FINISHED_TS = 60
"""Of the job whose binlog has one of the commit_ts below."""


class Widened(OneTable):
    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        async for page in super().jobs(after_job_id):
            yield page
        if after_job_id < 3:
            info = HistoryInfo(3, table_info=WIDER, finished_ts=FINISHED_TS)
            yield [DdlJob(3, 5, 9, 100, query="ALTER", binlog=info)]


def wide(commit_ts: int) -> Txn:
    row = TableCodec(WIDER).encode_insert({"id": commit_ts, "v": 7}, commit_ts)
    mutation = TableMutation(table_id=100, inserted_rows=[row], sequence=[Insert])
    value = PrewriteValue(schema_version=3, mutations=[mutation]).SerializeToString()
    binlog = Binlog(start_ts=commit_ts - 1, commit_ts=commit_ts, prewrite_value=value)
    return commit_ts, commit_ts - 1, binlog.SerializeToString()


def alter(commit_ts: int) -> Txn:
    made = Binlog(
        start_ts=commit_ts - 1,
        commit_ts=commit_ts,
        ddl_query=b"ALTER",
        ddl_job_id=3,
        ddl_schema_state=5,
    )
    return commit_ts, commit_ts - 1, made.SerializeToString()


async def lost_at(
    world: World, registry: FakeRegistry, pump: FakePump, position: int, txns: list[Txn]
) -> None:
    """All of `txns` is published and the reader stands at `position`; then the stream is gone."""
    pump.commit(txns, txns[-1][0])
    node = world.node("drainer")
    await world.until(lambda: said(node).get("published_ts", 0) >= txns[-1][0], 30, "the feed")
    node.kill()
    registry.consumers = [Consumer("reader", FEED, position)]
    await registry.bus.stream_delete(subjects.changes_stream(FEED))
    node.start(build, CONFIG)


async def read(world: World, after_ts: int, upto: int) -> list[Change]:
    reader = ChangeReader(world.ports().bus, FEED, after_ts)
    found: list[Change] = []
    while not found or found[-1].commit_ts < upto:
        found += await reader.next()
    await reader.close()
    return found


def ddls(changes: list[Change]) -> list[tuple[int, int, bool]]:
    return [
        (change.commit_ts, ddl.schema_version, ddl.early)
        for change in changes
        for ddl in change.ddls
    ]


@pytest.mark.parametrize(
    ("position", "own_ts", "row_ts", "ends", "commits", "wanted"),
    [
        (40, 30, 41, 70, [41, 70], []),
        (40, 30, 65, 70, [65, 70], []),
        (25, 30, 41, 70, [30, 41, 70], [(30, 3, False)]),
        (40, 45, 41, 70, [41, 70], [(41, 3, True)]),
        (40, 45, 41, 50, [41, 50], [(41, 3, True)]),
        (40, 30, 41, 50, [41, 50], [(41, 3, True)]),
    ],
    ids=[
        "known",
        "known, and finished before the row",
        "to come",
        "behind its rows",
        "met at once",
        "said again: nobody can know",
    ],
)
def test_readers_meet_the_ddl_once(
    position: int,
    own_ts: int,
    row_ts: int,
    ends: int,
    commits: list[int],
    wanted: list[tuple[int, int, bool]],
) -> None:
    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: Widened()
        registry, pump = await begin(world)
        txns = sorted([*DDLS, txn(20), alter(own_ts), wide(row_ts), txn(ends)])
        await lost_at(world, registry, pump, position, txns)
        changes = await read(world, position, ends)
        assert ddls(changes) == wanted
        assert [one.commit_ts for change in changes for one in change.txns] == commits
        rows = [event for change in changes for m in change.rows for event in m.events]
        assert [row.after for row in rows if row.commit_ts == row_ts] == [{"id": row_ts, "v": 7}]

    run(main, 1)
