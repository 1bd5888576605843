"""Runs schema changes as TiDB does: the job into the history, then its Prewrite and Commit."""

from __future__ import annotations

import msgspec

from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import DiskFull, Unavailable
from tidelog.schema import jobs
from tidelog.schema.model import DBInfo, DdlJob, HistoryInfo, Name
from tidelog.timestamps import LOGICAL_BITS
from tidelog.workload.dice import Dice
from tidelog.workload.ledger import Committed
from tidelog.workload.schema_change import SchemaChange
from tidelog.workload.source import Source
from tidelog.workload.timestamps import fresh
from tidelog.workload.transaction import Upstream, finish, write_prewrite
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite, Rollback

RETRY_S = 0.3
FINISHED_MS = 400
"""From a job's beginning to its FinishedTS, which is mostly above its binlog's commit_ts."""
UNDO_SHARE = 0.05
"""DDLs whose last transaction fails first: Prewrite, Rollback, the same job again (seed 001)."""


class DdlRunner:
    """One DDL at a time, like TiDB's owner. Its table takes no transactions meanwhile."""

    def __init__(
        self,
        world: Upstream,
        source: Source,
        history: EmbeddedHistory,
        dice: Dice,
        *,
        dead_share: float,
    ) -> None:
        self._world = world
        self._source = source
        self._dice = dice
        self._history = history
        self._dead_share = dead_share

    async def run(self, change: SchemaChange) -> None:
        table = change.table
        if table is not None:
            table.blocked = True
            await table.idle.wait()
        start_ts = await fresh(self._world.oracle, self._world.clock, 0)
        job = self._job(change, start_ts)
        await self._append(job)
        if change.type == jobs.DROP_COLUMN:
            await self._binlog(change, job, jobs.STATE_DELETE_ONLY)
        await self._binlog(change, job, change.state)
        if table is not None:
            table.blocked = False

    def _job(self, change: SchemaChange, start_ts: int) -> DdlJob:
        name = change.db
        schema_id = self._source.databases.get(name) or self._source.new_id()
        db_info = None
        if change.type == jobs.CREATE_SCHEMA:
            db_info = DBInfo(schema_id, Name(name, name), "utf8mb4", "utf8mb4_bin")
        return DdlJob(
            id=self._source.new_id(),
            type=change.type,
            schema_id=schema_id,
            table_id=change.table_id,
            schema_name=name,
            table_name=change.table_name,
            state=jobs.JOB_STATE_SYNCED,
            schema_state=change.state,
            query=change.query,
            binlog=HistoryInfo(
                schema_version=self._source.schema_version + change.steps,
                db_info=db_info,
                table_info=change.info,
                finished_ts=start_ts + (FINISHED_MS << LOGICAL_BITS),
            ),
        )

    async def _append(self, job: DdlJob) -> None:
        """Until the registry has it, and room for it: a Drainer that meets the binlog must find the
        job."""
        body = msgspec.json.encode(job)
        while True:
            try:
                await self._history.append(body)
                return
            except (Unavailable, DiskFull):
                await self._world.clock.sleep(RETRY_S)

    async def _binlog(self, change: SchemaChange, job: DdlJob, state: int) -> None:
        """One Prewrite and Commit, tried with a new start_ts until it is committed."""
        world = self._world
        while True:
            start_ts = await fresh(world.oracle, world.clock, 0)
            prewrite = Binlog(
                tp=Prewrite,
                start_ts=start_ts,
                prewrite_key=b"mDDLJobList" + job.id.to_bytes(8, "big"),
                ddl_query=change.query.encode(),
                ddl_job_id=job.id,
                ddl_schema_state=state,
            )
            world.outcomes.begin(start_ts)
            if not await write_prewrite(world, prewrite):
                await world.clock.sleep(RETRY_S)
                continue
            if self._dice.chance(UNDO_SHARE):
                world.outcomes.roll_back(start_ts)
                await world.client.write(finish(prewrite, Rollback))
                continue
            commit_ts = await fresh(world.oracle, world.clock, start_ts)
            if world.outcomes.commit(start_ts, commit_ts):
                break
            await world.client.write(finish(prewrite, Rollback))
        await self._committed(change, job, prewrite, commit_ts, first=state != change.state)

    async def _committed(
        self, change: SchemaChange, job: DdlJob, prewrite: Binlog, commit_ts: int, *, first: bool
    ) -> None:
        world, source = self._world, self._source
        dead = self._dice.chance(self._dead_share)
        kind = "nothing" if first else "ddl"
        if not first:
            if change.type == jobs.CREATE_SCHEMA:
                source.databases[change.db] = job.schema_id
            change.apply()
            source.schema_version = job.version
            world.counts.ddls += 1
        source.last_commit_ts = max(source.last_commit_ts, commit_ts)
        world.ledger(Committed(commit_ts, prewrite.start_ts, kind, query=change.query, dead=dead))
        if dead:
            world.counts.died += 1
            world.outcomes.abandon(prewrite.start_ts)
            world.client.forget(prewrite.start_ts)
        else:
            await world.client.write(finish(prewrite, Commit, commit_ts))
