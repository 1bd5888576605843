"""Markers name every table that a transaction changes, and must stay below the server's limit."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tests.unit.decode.upstream import table_info
from tests.unit.drainer.test_simulated import DDLS, OneTable, txn
from tests.unit.drainer.test_stops import begin, everything, said, written
from tidelog.decode.routes import Route
from tidelog.decode.transactions import RowTxn, TableRows
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.history import TableAt
from tidelog.schema.model import DdlJob, HistoryInfo, TableInfo
from tidelog.sim.streams import MAX_PAYLOAD
from tidelog.sim.world import World, run
from tidelog_drainer.publish.batcher import Batcher
from tidelog_proto.binlog_pb2 import Insert, TableMutation

LONGEST = 64 * "表"
TABLES: list[TableInfo] = [
    table_info(200 + at, f"{at:04}{LONGEST[4:]}") for at in range(MAX_PAYLOAD // 540)
]


class LongNames(OneTable):
    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        async for page in super().jobs(after_job_id):
            yield page
        made = [
            DdlJob(at, 3, 9, one.id, "app", "t", binlog=HistoryInfo(at, table_info=one))
            for at, one in enumerate(TABLES, 3)
        ]
        if wanted := [job for job in made if job.id > after_job_id]:
            yield wanted


def test_a_marker_above_the_servers_limit_is_a_stop_that_says_so() -> None:
    mutations = [
        TableMutation(
            table_id=one.id,
            inserted_rows=[TableCodec(one).encode_insert({"id": 1, "n": 1}, 1)],
            sequence=[Insert],
        )
        for one in TABLES
    ]
    wide = written(5000, mutations, 2 + len(TABLES))

    async def main(world: World) -> None:
        world.open_ddl_history = lambda url, bus: LongNames()
        _, pump = await begin(world)
        node = world.node("drainer")
        pump.commit([*DDLS, txn(10), wide, txn(6000)], 6000)
        await world.until(lambda: bool(said(node).get("error")), 60, "the stop")
        error = said(node)["error"]
        assert error.startswith("transaction 5000: ")
        assert "changes.shop.txn" in error
        assert "max_payload" in error
        assert await everything(world) == [2, 4, 10]
        assert (node.starts, node.failures) == (1, [])

    run(main, 1)


def test_two_transactions_of_many_tables_do_not_share_a_marker() -> None:
    """Each of them fits; together they would not."""
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=4 << 20)

    def of(commit_ts: int, tables: list[TableInfo]) -> RowTxn:
        routes = (
            Route("main", TableAt(f"{commit_ts}{LONGEST[4:]}", one.name.text, 2, one))
            for one in tables
        )
        rows = [TableRows(route, [b'{"op":"c"}'], (1, 0, 0)) for route in routes]
        return RowTxn(commit_ts, commit_ts - 1, rows, len(rows), 10 * len(rows))

    batcher.add(of(1000, TABLES[:400]))
    second = of(1001, TABLES[:500])
    assert not batcher.takes(second)
    for batch in (batcher.finish(0, 1000), batcher.early(second, 1000)):
        assert len(batch.chunks[-1][-1].data) < MAX_PAYLOAD
