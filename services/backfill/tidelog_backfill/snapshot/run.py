"""A backfill, from its job to its report: the driver's side."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.bulk.jobs import BackfillJob
from tidelog.bulk.told import Progress, Report
from tidelog.config import Secret
from tidelog.errors import ConfigError, NotFound, Refused, TidelogError, Unavailable
from tidelog.ports import Clock
from tidelog.real.clock import RealClock
from tidelog_backfill.jobs.spec import SOURCE_PASSWORD, downstream_options
from tidelog_backfill.snapshot.database import DatabaseTarget
from tidelog_backfill.snapshot.feed import FeedTarget, FeedWay
from tidelog_backfill.snapshot.parquet import ParquetTarget
from tidelog_backfill.snapshot.pin import Pin
from tidelog_backfill.snapshot.plan import Asked, Chunk, CopiedTable, SnapshotPlan, waves
from tidelog_backfill.snapshot.refusals import (
    keyless_ahead,
    refuse_another,
    refuse_changed,
    refuse_keyless,
    refuse_keyless_told,
    refuse_ordered,
    refuse_unknown_moment,
    refuse_unmet,
)
from tidelog_backfill.snapshot.source import Found, Source
from tidelog_backfill.snapshot.sources import open_source
from tidelog_backfill.snapshot.target import CopyTarget
from tidelog_backfill.snapshot.task import Copied, CopyTask
from tidelog_backfill.task_errors import carried, unexpected
from tidelog_backfill.watching import watched

log = structlog.get_logger()

Told = Callable[[Progress], None]


def backfill(spark: SparkSession, job: BackfillJob, told: Told) -> Report:
    """Whole tables as of one timestamp into the job's target. A job that was ended goes on behind
    its last chunk. Raises the typed errors of source, target and registry."""
    with asyncio.Runner() as loop:
        copy = Backfill(spark, job, told, loop)
        try:
            return copy.run()
        except TidelogError as error:
            error.hint = "; ".join(filter(None, (error.hint, *copy.hints(error))))
            raise
        finally:
            loop.run(copy.target.close())


class Backfill:
    """One job. The loop is for what is asked of target and registry between Spark's jobs."""

    def __init__(
        self, spark: SparkSession, job: BackfillJob, told: Told, loop: asyncio.Runner
    ) -> None:
        self._spark = spark
        self._job = job
        self._told = told
        self._loop = loop
        self._password = os.environ.get(SOURCE_PASSWORD, "")
        self._source: Source = open_source(job.source, self._password)
        self._cores = spark.sparkContext.defaultParallelism
        self._lanes = job.parts or 2 * self._cores
        self.target: CopyTarget = open_target(job, self._lanes)
        self._clock: Clock = RealClock()
        self._pin = Pin(job, self._clock)
        self._asked = Asked(job.feed, self._source.shown, job.tables)
        self._rows = 0
        self._copies = False

    def hints(self, error: TidelogError) -> list[str]:
        """What of it is there still, once it ended by `error`."""
        if not self._copies or isinstance(error, Unavailable):
            return [self._pin.held]
        return [self._pin.held, f"to begin anew instead, {self.target.anew}"]

    def run(self) -> Report:
        began = self._clock.monotonic()
        wait = self._loop.run
        self._told(Progress("planning"))
        plan = wait(self.target.kept())
        if plan is None:
            plan = self._begun()
        else:
            refuse_another(plan, self._asked, self._job.snapshot_ts, self.target.anew)
            self._refuse_keyless(plan.tables, exact=plan.exact)  # an earlier release took them
            wait(self._pin.hold(plan.ts))
        if not wait(self.target.is_whole(plan)):
            self._copy(plan)
            reach = plan.ts if plan.exact else wait(self._pin.reach(self._source.timestamp()))
            wait(self.target.finish(plan, reach))
        left = wait(self._pin.let_go(plan.ts))
        wait(self.target.forget())  # last: until then a job that was ended comes to this end
        return Report(
            plan.ts,
            rows=self._rows,
            written=self._rows,
            tables=len(plan.tables),
            seconds=round(self._clock.monotonic() - began, 3),
            guarantee=plan.guarantee,
            warnings=[*plan.warnings, *left],
        )

    def _begun(self) -> SnapshotPlan:
        """Decided and kept. Where that fails there is nothing to go on with."""
        try:
            plan = self._planned()
        except BaseException:
            self._loop.run(self._give_way())
            raise
        try:
            self._loop.run(self.target.keep(plan))
        except Refused:
            self._loop.run(self._give_way())
            raise
        return plan

    async def _give_way(self) -> None:
        """To another backfill's copy, if there is one: what we hold is held in its name, too, and
        stays where nobody can tell."""
        if not self._pin.holds:
            return
        try:
            kept = await self.target.kept()
            await (self._pin.drop() if kept is None else self._pin.hold(kept.ts))
        except Refused:
            await self._pin.drop()
        except TidelogError as error:
            log.warning("what a copy would need stays held", why=str(error))

    def _planned(self) -> SnapshotPlan:
        source = self._source
        ts, found = self._found()
        if not found.tables:
            wanted = ", ".join(self._job.tables) or "any"
            raise NotFound(f"{source.shown} has no table to copy: {wanted}", hint="db.table")
        warnings = [*found.warnings, *refuse_unmet(self._job.tables, found, source.shown)]
        self._refuse_keyless(found.tables, exact=source.is_exact)
        if self._job.parquet and not source.is_exact:
            warnings += keyless_ahead(found.tables, ts)
        prepared = self._loop.run(self.target.prepare(found.tables, ts))
        if not source.is_exact:
            refuse_ordered(prepared.tables)
        chunks = source.chunks(prepared.tables, self._job.chunk_rows, ts)
        return SnapshotPlan(
            ts=ts,
            exact=source.is_exact,
            guarantee=source.guarantee,
            tables=prepared.tables,
            chunks=chunks,
            asked=self._asked,
            warnings=[*warnings, *prepared.warnings],
        )

    def _refuse_keyless(self, tables: Sequence[CopiedTable], *, exact: bool) -> None:
        """Raises Refused."""
        if self._job.to_feed:
            refuse_keyless_told(tables)
        elif not (exact or self._job.parquet):
            refuse_keyless(tables)

    def _found(self) -> tuple[int, Found]:
        """The timestamp and the tables at it. A source of now is asked for them on both sides of
        the timestamp: the stream would bring what a DDL between them has done a second time."""
        source, tables = self._source, self._job.tables
        own = source.timestamp()
        refuse_unknown_moment(source, self._job.snapshot_ts or own)
        before = None if source.is_exact else source.found(tables, own)
        ts = self._loop.run(self._pin.timestamp(own))
        found = source.found(tables, ts)
        if before is not None:
            refuse_changed(before.tables, found.tables)
            if self._job.snapshot_ts:
                warning = (
                    f"tables are copied as they are now: a DDL that the source has run since {ts}"
                    " stops the Applier"
                )
                found = msgspec.structs.replace(found, warnings=[*found.warnings, warning])
        return ts, found

    def _copy(self, plan: SnapshotPlan) -> None:
        done = self._loop.run(self.target.done(plan))
        self._copies = True
        count = len(done)
        task = self._task(plan)
        for wave in waves(plan.chunks, done, self._lanes):
            copied = self._wave(task, wave, partial(self._tell, plan, count, wave))
            count += len(copied)
            self._rows += sum(one.rows for one in copied)
            self._tell(plan, count, wave, 0)

    def _tell(self, plan: SnapshotPlan, before: int, wave: Sequence[Chunk], part: float) -> None:
        """So many chunks are copied, and `part` of a wave behind them."""
        done, total = before + int(part * len(wave)), len(plan.chunks)
        note = plan.tables[wave[-1].table].shown
        self._told(
            Progress(
                "copying",
                done=done,
                total=total,
                unit="chunks",
                rows=self._rows,
                note=note,
                lasting=done,
                needs_after=plan.ts,
            )
        )

    def _task(self, plan: SnapshotPlan) -> CopyTask:
        job = self._job
        return CopyTask(
            job.source,
            Secret(self._password),
            plan.tables,
            plan.ts,
            self.target.way(),
            job.part_rows,
            job.rows_per_s,
        )

    def _wave(
        self, task: CopyTask, chunks: Sequence[Chunk], told: Callable[[float], None]
    ) -> list[Copied]:
        """A chunk a task: its number among them is its lane's."""
        at_work = task.one_of(min(self._cores, len(chunks)))

        def copied() -> list[Copied]:
            found = self._spark.sparkContext.parallelize(chunks, len(chunks))
            return found.mapPartitionsWithIndex(at_work).collect()

        try:
            return self._loop.run(watched(self._spark, copied, told))
        except (PySparkException, Py4JError) as error:
            raise carried(error) or unexpected(error) from error


def open_target(job: BackfillJob, lanes: int) -> CopyTarget:
    """Nothing is connected yet; it takes a database from no Applier that lives. Raises
    ConfigError."""
    if job.downstream:
        found = downstream_options(job, os.environ, lanes=lanes)
        own = msgspec.structs.replace(found, if_free=True, copies=True)
        return DatabaseTarget(own, job.feed)
    if job.parquet:
        return ParquetTarget(job.parquet)
    if not job.nats_url:
        raise ConfigError("a copy to the feed needs nats-url", hint="nats://HOST:4222")
    return FeedTarget(FeedWay(job.nats_url, job.feed, job.access))
