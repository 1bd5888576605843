"""Bodies of `backfill.<node>.{submit,status,cancel}` and of its events (JSON)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from tidelog.bulk.jobs import Job
from tidelog.bulk.told import Failed, Progress, Report

JobId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
State = Literal["queued", "running", "done", "failed", "cancelled"]
QUEUED: Final = "queued"
RUNNING: Final = "running"
DONE: Final = "done"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
STATES: tuple[State, ...] = (QUEUED, RUNNING, DONE, FAILED, CANCELLED)
ENDED = (DONE, FAILED, CANCELLED)


class Submit(msgspec.Struct, frozen=True):
    """Answered with its JobStatus. The submitter chooses `id`: the same job again is one job."""

    id: JobId
    job: Job


class AskJobs(msgspec.Struct, frozen=True):
    """`status`. Answered with Jobs: the one of that id, or all but the first `skip`."""

    id: str = ""
    skip: int = 0


class Cancel(msgspec.Struct, frozen=True):
    """Answered with its JobStatus. What it has written stays; submitted again, it goes on there."""

    id: JobId


class JobStatus(msgspec.Struct, frozen=True):
    """Also the body of each event. Times in Unix milliseconds, 0 = not yet. `job`: without
    passwords. `tries`: how often its process was started; `error`: why the last one ended early."""

    id: str
    kind: str
    state: State
    job: dict[str, Any]
    submitted: int = 0
    started: int = 0
    ended: int = 0
    tries: int = 0
    error: str = ""
    progress: Progress | None = None
    report: Report | None = None
    failed: Failed | None = None


class Jobs(msgspec.Struct, frozen=True):
    """In order of their submission. `more`: others follow that one message has no room for."""

    jobs: list[JobStatus]
    more: bool = False
