"""A copy from one real MariaDB into another, a chunk at a time and without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pymysql

from tests.servers import MariaDb
from tidelog.bulk.jobs import BackfillJob
from tidelog.config import Secret
from tidelog_backfill.snapshot.mysql_source import MysqlSource
from tidelog_backfill.snapshot.plan import Asked, Chunk, SnapshotPlan
from tidelog_backfill.snapshot.run import open_target
from tidelog_backfill.snapshot.task import Copied, CopyTask

S = 10_000 << 18
PLAIN = ("--innodb-flush-method=nosync", "--innodb-flush-log-at-trx-commit=0")


def url(server: MariaDb) -> str:
    return f"mysql://root@{server.host}:{server.port}/"


def sql(server: MariaDb, *statements: str) -> list[tuple[Any, ...]]:
    """The last one's rows."""
    with closing(connected(server)) as connection, connection.cursor() as at:
        for statement in statements:
            at.execute(statement)
        return list(at.fetchall())


def connected(server: MariaDb) -> pymysql.Connection[Any]:
    return pymysql.connect(
        host=server.host, port=server.port, user="root", autocommit=True, charset="utf8mb4"
    )


class Copy:
    """Of the source's `shop.item` in chunks of 1,000 rows, under one event loop."""

    def __init__(self, source: MariaDb, target: MariaDb, **more: Any) -> None:
        self.job = BackfillJob(
            source=url(source), downstream=url(target), snapshot_ts=S, tables=("shop.item",), **more
        )
        self.source = MysqlSource(self.job.source, "")
        self.target = open_target(self.job, 2)
        self._loop = asyncio.Runner()

    async def _begin(self) -> SnapshotPlan:
        target, source, tables = self.target, self.source, self.job.tables
        assert await target.kept() is None
        found = await target.prepare(source.found(tables, S).tables, S)
        chunks = source.chunks(found.tables, 1000, S)
        asked = Asked(self.job.feed, source.shown, tables)
        plan = SnapshotPlan(S, False, source.guarantee, found.tables, chunks, asked)
        await target.keep(plan)
        return plan

    def begin(self) -> SnapshotPlan:
        return self._loop.run(self._begin())

    def kept(self) -> SnapshotPlan | None:
        return self._loop.run(self.target.kept())

    def done(self, plan: SnapshotPlan) -> frozenset[int]:
        return self._loop.run(self.target.done(plan))

    def write(self, plan: SnapshotPlan, chunks: Sequence[Chunk], rate: float = 0) -> list[Copied]:
        """As a task does, after `done`."""
        way = self.target.way()
        task = CopyTask(self.job.source, Secret(), plan.tables, plan.ts, way, 500, rate)
        return list(task(0, chunks))

    def say_finished(self, plan: SnapshotPlan) -> None:
        self._loop.run(self.target.finish(plan, S + 1))

    def is_whole(self, plan: SnapshotPlan) -> bool:
        return self._loop.run(self.target.is_whole(plan))

    def finish(self, plan: SnapshotPlan) -> None:
        self.say_finished(plan)
        self._loop.run(self.target.forget())

    def close(self) -> None:
        self._loop.run(self.target.close())
        self._loop.close()
