"""The process of one job: `python -m tidelog_backfill run JOB.json`. Its lines
(`tidelog.bulk.told`) go to standard output and nothing else does: what Spark prints goes to
standard error."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidelog import logs
from tidelog.bulk.jobs import Job, ReplayJob, read_job
from tidelog.bulk.told import Failed, Line, Progress, Report, encode_line
from tidelog.errors import EXIT_OK, BadInput, ConfigError, TidelogError
from tidelog_backfill.task_errors import carried, of_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Told = Callable[[Progress], None]


def run_job(argv: Sequence[str]) -> int:
    """Returns the exit code; the last line says why."""
    logs.configure(service="backfill")
    tell = _own_output()
    try:
        if len(argv) != 1:
            raise BadInput("one job file is needed", hint="python -m tidelog_backfill run JOB.json")
        job = read_job(Path(argv[0]))
        tell(Progress("starting", note="Spark"))
        tell(carry_out(job, tell))
    except Exception as error:
        typed = _typed(error)
        failed = Failed.of(typed or error)
        tell(failed)
        if typed is None:
            raise
        return failed.exit_code
    return EXIT_OK


def _typed(error: Exception) -> TidelogError | None:
    """None: nobody foresaw it."""
    if isinstance(error, TidelogError):
        return error
    return of_system(error) if isinstance(error, OSError) else carried(error)


def carry_out(job: Job, told: Told) -> Report:
    """With a session of its own. Raises what the job fails by."""
    try:
        from tidelog_backfill.cluster import check, is_local
        from tidelog_backfill.session import spark
    except ImportError as error:
        raise ConfigError(
            f"{error.name} is not installed",
            hint="pip install '.[backfill]' in a checkout of Tidelog",
        ) from error
    session = spark(job.spark, name=f"tidelog-{job.feed}")
    try:
        if not is_local(job.spark.master):
            told(Progress("starting", note="executors"))
            check(session, job)
        return _work(session, job, told)
    finally:
        session.stop()


def _work(session: SparkSession, job: Job, told: Told) -> Report:
    if isinstance(job, ReplayJob):
        from tidelog_backfill.replay.run import replay

        return replay(session, job, told)
    from tidelog_backfill.snapshot.run import backfill

    return backfill(session, job, told)


def _own_output() -> Callable[[Line], None]:
    """Standard output for us alone: the JVM and everything that prints inherit standard error."""
    ours = os.dup(1)
    os.dup2(2, 1)

    def tell(line: Line) -> None:
        data = encode_line(line)
        while data:
            data = data[os.write(ours, data) :]

    return tell
