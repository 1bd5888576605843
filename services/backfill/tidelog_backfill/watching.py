"""A Spark action in a thread of its own, so that the loop of its driver stays free: what it has
done is told meanwhile, and connections are kept alive.

    rows = await watched(spark, frame.collect, lambda done: print(f"{done:.0%}"))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from pyspark.sql import SparkSession

from tidelog.real.rng import RealRng

T = TypeVar("T")
EVERY_S = 1.0


class StageTasks(NamedTuple):
    """Of one stage: how many tasks are done, of how many."""

    done: int
    total: int


def fraction(stages: Sequence[StageTasks]) -> float:
    """How much of a job is done, 0 to 1: each stage counts the same, and so does each of its tasks.
    A task that is tried again is not done before it ended well."""
    counted = [min(one.done, one.total) / one.total for one in stages if one.total]
    return sum(counted) / len(counted) if counted else 0.0


async def watched(
    spark: SparkSession,
    action: Callable[[], T],
    told: Callable[[float], None],
    *,
    every_s: float = EVERY_S,
) -> T:
    """What it returns or raises. `told` each `every_s`, of all jobs that it has begun so far, never
    less than before. Cancelled, it cancels its jobs."""
    context = spark.sparkContext
    group = f"tidelog-{RealRng().token()}"

    def act() -> T:
        context.setJobGroup(group, group, interruptOnCancel=True)
        return action()

    running = asyncio.get_running_loop().run_in_executor(None, act)
    running.add_done_callback(lambda ended: ended.exception())  # also where we have cancelled it
    most = 0.0
    try:
        while not (await asyncio.wait([running], timeout=every_s))[0]:
            most = max(most, fraction(_stages(spark, group)))
            told(most)
        return running.result()
    finally:
        while not running.done():  # again: its first job may begin only now
            context.cancelJobGroup(group)
            await asyncio.wait([running], timeout=every_s)


def _stages(spark: SparkSession, group: str) -> list[StageTasks]:
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return [StageTasks(one.numCompletedTasks, one.numTasks) for one in stages if one]
