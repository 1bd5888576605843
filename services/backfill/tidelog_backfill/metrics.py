"""What the backfill service shows of its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter

from tidelog.metrics import position_ms, shown

ENDED = Counter("tidelog_backfill_jobs_ended", "Tries of jobs that ended, by state", ["state"])
EVENTS_DROPPED = Counter(
    "tidelog_backfill_events_dropped", "Events of jobs that nobody was sent: NATS took none"
)

JOBS = shown(
    "tidelog_backfill_jobs",
    "Jobs that are known, by state",
    "jobs",
    lambda said: said["jobs"],
    "state",
)


def _running(said: Mapping[str, Any], field: str) -> float:
    """Of the job that runs; KeyError while none does, or it has told nothing."""
    value: float = said["running"][field]
    return value


DONE = shown(
    "tidelog_backfill_job_done",
    "Of the stage that the running job is in: how much is done, in the unit that its status names",
    "jobs",
    lambda said: _running(said, "done"),
)
TOTAL = shown(
    "tidelog_backfill_job_total",
    "how much there is to do; 0 = not known",
    "jobs",
    lambda said: _running(said, "total"),
)
ROWS = shown(
    "tidelog_backfill_job_rows",
    "Rows that the running job has taken",
    "jobs",
    lambda said: _running(said, "rows"),
)
REACHED = shown(
    "tidelog_backfill_job_reached_ms",
    "Up to where the running job's target holds everything, in ms",
    "jobs",
    lambda said: position_ms(said["running"]["commit_ts"]),
)
TRIES = shown(
    "tidelog_backfill_job_tries",
    "Times that the running job was begun",
    "jobs",
    lambda said: said["tries"],
)
