"""A replay from its beginning to its end: what the driver does.

    what the logs hold ─▶ plan ─▶ per segment: its DDLs, its rows as one Spark job, the checkpoint

A replay that was ended in whatever way is begun again with the same job: it goes on from the
downstream's checkpoint, and passes by those parts of its segment that are written.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable

import msgspec
import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.told import Progress, Report
from tidelog.errors import BadInput, ForeignCluster
from tidelog.real.clock import RealClock
from tidelog.schema.tracker import SchemaTracker
from tidelog.timestamps import TS_MAX
from tidelog_backfill.files import purged
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.inputs import Input, found
from tidelog_backfill.jobs.spec import decode_config, downstream_options
from tidelog_backfill.replay.bounds import check_until, held
from tidelog_backfill.replay.history import schema_history
from tidelog_backfill.replay.parquet import ParquetTarget
from tidelog_backfill.replay.pb_ddls import databases
from tidelog_backfill.replay.plan import Plan, Segment
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.routing import Place, Routing, routing
from tidelog_backfill.replay.step import (
    buckets_of,
    carried_out,
    most_parts,
    parts_of,
    surveyed,
    tasks_of,
)
from tidelog_backfill.replay.target import DatabaseTarget, Target
from tidelog_backfill.replay.wanted import Wanted
from tidelog_backfill.replay.write import Reading
from tidelog_backfill.task_errors import carried, unexpected
from tidelog_backfill.watching import watched

Told = Callable[[Progress], None]
log = structlog.get_logger()


def replay(spark: SparkSession, job: ReplayJob, told: Told) -> Report:
    """Raises NotFound, BadInput, Corrupt, RelayGap, Purged, ConfigError, Refused (an Applier writes
    this downstream), TakenOver, Stopped, Unavailable, and what planning raises."""
    try:
        return asyncio.run(_Replay(spark, job, told).run())
    except (PySparkException, Py4JError) as error:
        raise carried(error) or unexpected(error) from error


class _Replay:
    """Of one job. Its Spark jobs run beside the loop, which tells how far they are."""

    def __init__(self, spark: SparkSession, job: ReplayJob, told: Told) -> None:
        self._spark = spark
        self._job = job
        self._told = told
        self._input = _input(job)
        self._cores = spark.sparkContext.defaultParallelism
        parts = most_parts(job.parts, self._cores)
        self._target = _target(job, self._input, parts)
        self._places: set[Place] = set()
        self._pinned: set[Place] = set()
        self._notes: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._rows = self._written = self._ddls = 0
        self._segments = 0, 0
        """Done, of how many."""
        self._total = 0
        """Rows of all segments."""

    async def run(self) -> Report:
        clock = RealClock()
        began = clock.monotonic()
        try:
            await self._target.open()
            made = await self._plan()
            begins = self._target.position.commit_ts or self._job.start_ts or made.begins
            self._total = sum(segment.rows for segment in made.segments)
            if self._target.position.saved is None:
                await self._target.save(self._target.position.at(begins))
            for done, segment in enumerate(made.segments):
                self._segments = done, len(made.segments)
                self._tell_rows()
                await self._segment(segment)
            self._segments = len(made.segments), len(made.segments)
            await self._end(made)
        finally:
            await self._target.close()
        return self._report(made, begins, clock.monotonic() - began)

    async def _history(self) -> SchemaTracker | None:
        """What Pumps' logs are decoded by, and pb files' DDLs, if it is named."""
        job = self._job
        if self._input.kind == "relay" or (self._input.kind == "pb" and not job.ddl_history):
            return None
        return await schema_history(
            job.ddl_history, nats_url=job.nats_url, cluster=job.cluster, access=job.access
        )

    async def _plan(self) -> Plan:
        job, position = self._job, self._target.position
        history = await self._history()
        check_until(position, job)
        after_ts = held(position, job)
        if job.on_corrupt == "stop":
            purged.check(self._input.gone, after_ts)
        facts = await self._surveyed()
        self._notes += purged.warnings(self._input.gone, facts, after_ts)
        self._notes += [
            f"{log} holds nothing: what its Pump took after it was copied is missing, also where it"
            " was committed before the end of the others"
            for log in self._input.empty
        ]
        self._tell("planning")
        wanted = Wanted(
            after_ts=after_ts,
            until_ts=job.until_ts or TS_MAX,
            tables=job.tables,
            ddls_done=position.ddls_done,
            begun_ts=position.begun_ts,
            segment_bytes=job.segment_bytes,
            on_corrupt=job.on_corrupt,
        )
        config = decode_config(job)
        if self._input.kind != "pb" or history is not None:
            return plan(facts, wanted, history=history, config=config)
        present = await self._target.present(databases(facts))
        return plan(facts, wanted, config=config, present=present)

    async def _surveyed(self) -> list[Facts]:
        size, job = self._input.size, self._job

        def read(done: float) -> None:
            self._tell("reading", int(done * size), size, "bytes")

        read(0)
        chunks = self._input.chunks(job.chunk_bytes)
        return await watched(
            self._spark, lambda: surveyed(self._spark, chunks, job.on_corrupt), read
        )

    async def _segment(self, segment: Segment) -> None:
        target = self._target
        for ddl in segment.ddls:
            self._tell("ddl", note=f"{ddl.kind} at {ddl.commit_ts}")
            self._notes += await target.ddl(ddl, lambda said: self._tell("ddl", note=said))
            self._ddls += 1
        if segment.chunks:
            (span,) = segment.view.spans
            before = max(target.position.commit_ts, span.after_ts)
            await target.save(target.position.at(before, reach=segment.commit_ts))
            await self._write(segment)
        await target.save(target.position.at(segment.commit_ts))

    async def _write(self, segment: Segment) -> None:
        """Its rows; again with those tables in one part that turn out to need it."""
        rules = await self._target.rules(segment.structures)
        while True:
            parts = parts_of(segment, self._job.parts, self._cores)
            route = routing(
                rules,
                parts,
                self._pinned,
                buckets=buckets_of(segment, parts),
                row_bytes=segment.size // max(1, segment.rows),
            )
            pins = await self._step(segment, route)
            if not pins:
                self._places |= {form.place for form in route.forms}
                return
            self._pinned |= pins
            log.info("tables whose keys can't be told go in order", tables=sorted(pins))

    async def _step(self, segment: Segment, route: Routing) -> set[Place]:
        """Returns tables that must be pinned, and then the step is another one."""
        writing, done = await self._target.step(segment, route)
        chunks = tasks_of(segment.chunks, 2 * self._cores)
        reading = Reading(chunks, segment.view, route, done, self._job.on_corrupt)
        wrote, counts = await watched(
            self._spark,
            lambda: asyncio.run(carried_out(self._spark, segment, reading, writing)),
            lambda done: self._tell_rows(int(done * segment.rows)),
        )
        self._written += sum(one.rows for one in wrote)
        pins = {route.first_form(table).place for one in wrote for table in one.pins}
        if not pins:
            self._left_out += counts.left_out
            self._rows += counts.rows
        return pins

    async def _end(self, made: Plan) -> None:
        """The stream goes on behind `until`."""
        position = self._target.position
        reached = position.at(max(made.until, position.commit_ts))
        if position.saved != reached:
            await self._target.save(reached)
        await self._target.forget_steps()
        if not reached.consistent:
            self._notes.append(
                f"whoever wrote this downstream before may have got up to {reached.unsure}: its"
                f" rows need not be those of {reached.commit_ts} until the stream has passed that"
            )

    def _tell_rows(self, of_segment: int = 0) -> None:
        """`of_segment`: about so many of the one that is written."""
        self._tell("replaying", self._rows + of_segment, self._total, "rows")

    def _tell(
        self, stage: str, count: int = 0, total: int = 0, unit: str = "", note: str = ""
    ) -> None:
        done, segments = self._segments
        self._told(
            Progress(
                stage,
                done=count,
                total=total,
                unit=unit,
                rows=self._rows,
                commit_ts=self._target.position.commit_ts,
                segment=done,
                segments=segments,
                note=note,
            )
        )

    def _report(self, made: Plan, begins: int, seconds: float) -> Report:
        return Report(
            self._target.position.commit_ts,
            began_ts=begins,
            rows=self._rows,
            written=self._written,
            tables=len(self._places),
            ddls=self._ddls,
            segments=len(made.segments),
            seconds=seconds,
            skipped_bytes=made.skipped_bytes,
            left_out=dict(Counter(made.left_out) + self._left_out),
            warnings=[*made.warnings, *self._notes],
        )


def _input(job: ReplayJob) -> Input:
    """Raises NotFound, Corrupt, BadInput, also for another feed's relay or another cluster's."""
    logs = found(*job.inputs)
    if job.cluster_id and logs.cluster_id not in (0, job.cluster_id):
        raise ForeignCluster(
            f"{', '.join(job.inputs)} is of cluster {logs.cluster_id}, not of {job.cluster_id}",
            hint="replay it into a downstream of its own cluster: --dir, or cluster-id of the job",
        )
    if logs.feed and logs.feed != job.feed:
        raise BadInput(
            f"{', '.join(job.inputs)} is the relay log of feed {logs.feed}, not of {job.feed}",
            hint=f"name that feed: --feed {logs.feed}",
        )
    return logs


def _target(job: ReplayJob, logs: Input, parts: int) -> Target:
    """It takes a downstream from no Applier that lives."""
    if job.parquet:
        return ParquetTarget(job.parquet, job.feed)
    found = downstream_options(job, os.environ, lanes=parts)
    cluster_id = found.cluster_id or logs.cluster_id
    options = msgspec.structs.replace(found, if_free=True, cluster_id=cluster_id)
    return DatabaseTarget(options, job.feed, job.part_rows)
