"""The jobs of a node and what becomes of them. Pure; what it keeps is one file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy

import msgspec

from tidelog.bulk.control import (
    CANCELLED,
    DONE,
    ENDED,
    FAILED,
    QUEUED,
    RUNNING,
    STATES,
    Jobs,
    JobStatus,
    State,
)
from tidelog.bulk.jobs import URLS, Job, encode_job, is_secret_setting, shown_job
from tidelog.bulk.told import MOST_WORDS, Failed, Progress, Report, cut
from tidelog.config import redacted_url
from tidelog.errors import (
    BadInput,
    Conflict,
    Corrupt,
    NotFound,
    Overloaded,
    TidelogError,
    Unavailable,
)
from tidelog.feeds import check_name
from tidelog.security.access import NatsAccess
from tidelog.unreadable import NOT_READABLE

MOST = 2000
"""Jobs, of whatever state."""
JOB_BYTES = 64 << 10
PAGE_BYTES = 256 << 10
"""A status is told in one message, and as many of them as have room."""
MOST_WARNINGS = 100
WARNING_CHARS = 1000


class Kept(msgspec.Struct):
    """One job. `vain`: its last tries that got no further. `reached`: it needs nothing of the
    Pumps up to there; `lasting`: the most pieces that it told are done for good. `released`: the
    Pumps keep nothing for it any more."""

    id: str
    job: Job
    state: State = QUEUED
    submitted: int = 0
    started: int = 0
    ended: int = 0
    tries: int = 0
    vain: int = 0
    error: str = ""
    progress: Progress | None = None
    report: Report | None = None
    failed: Failed | None = None
    reached: int = 0
    lasting: int = 0
    released: bool = False

    @property
    def consumer(self) -> str:
        """Its name among those whom the safe point waits for."""
        return f"job-{self.id}"

    def status(self) -> JobStatus:
        return JobStatus(
            self.id,
            type(self.job).__struct_config__.tag,  # type: ignore[arg-type]
            self.state,
            shown_job(self.job),
            self.submitted,
            self.started,
            self.ended,
            self.tries,
            self.error,
            self.progress,
            self.report,
            self.failed,
        )


class Queue:
    """At most one job runs, `waiting` wait, `kept` that have ended are remembered."""

    def __init__(self, jobs: Iterable[Kept], *, waiting: int, kept: int, tries: int) -> None:
        self._jobs = {job.id: job for job in jobs}
        self._waiting = waiting
        self._kept = kept
        self._tries = tries
        for job in self._jobs.values():
            if job.state == RUNNING:  # its process died with ours
                job.state = QUEUED

    @property
    def all(self) -> list[Kept]:
        return list(self._jobs.values())

    def find(self, job_id: str) -> Kept:
        """Raises NotFound."""
        if job_id not in self._jobs:
            raise NotFound(f"no job {job_id!r} is known here", hint="`tidelog jobs` lists them")
        return self._jobs[job_id]

    def submit(self, job_id: str, job: Job, now_ms: int) -> Kept:
        """Raises Conflict (another job has that id), Overloaded, BadInput (a feed that can't be, a
        password in it, or too much). How NATS is reached is the node's own."""
        job = msgspec.structs.replace(job, nats_url="").with_access(NatsAccess())
        known = self._jobs.get(job_id)
        if known is not None:
            if known.job != job:
                raise Conflict(f"another job has the id {job_id!r}")
            return known
        _refuse_no_feed(job.feed)
        _refuse_passwords(job)
        if (size := len(encode_job(job))) > JOB_BYTES:
            raise BadInput(
                f"a job of {size} bytes, and {JOB_BYTES} are the most that is kept",
                hint="name tables by wildcards, or do it with --local",
            )
        if sum(one.state == QUEUED for one in self._jobs.values()) >= self._waiting:
            raise Overloaded(
                f"{self._waiting} jobs are waiting already", hint="`tidelog jobs cancel ID`"
            )
        if len(self._jobs) >= MOST:
            raise Overloaded(
                f"{MOST} jobs have ended that the registry could not be told of",
                hint="see why it does not answer",
            )
        kept = Kept(job_id, job, submitted=now_ms)
        self._jobs[job_id] = kept
        return kept

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Around a change and its keeping: where that fails, nobody has submitted, begun or
        cancelled anything. What a job told meanwhile stays."""
        before = {job.id: copy(job) for job in self._jobs.values()}
        try:
            yield
        except TidelogError:
            self._jobs = {job.id: job for job in self.all if job.id in before}
            for job in self.all:
                was = before[job.id]
                job.state, job.started, job.ended = was.state, was.started, was.ended
                job.tries, job.vain = was.tries, was.vain
            raise

    @property
    def running(self) -> Kept | None:
        return next((job for job in self._jobs.values() if job.state == RUNNING), None)

    def counts(self) -> dict[str, int]:
        """How many jobs are in each state."""
        states = [job.state for job in self._jobs.values()]
        return {state: states.count(state) for state in STATES}

    def begin(self, now_ms: int) -> Kept | None:
        """The next job to run, or None: one runs, or none waits."""
        waiting = (job for job in self._jobs.values() if job.state == QUEUED)
        if self.running is not None or (job := next(waiting, None)) is None:
            return None
        job.state, job.tries, job.vain = RUNNING, job.tries + 1, job.vain + 1
        job.started = job.started or now_ms
        return job

    def told(self, job: Kept, progress: Progress) -> None:
        """Further than ever: what it fails by from now on is another trouble."""
        place = max(progress.commit_ts, progress.needs_after, job.reached), progress.lasting
        if place > (job.reached, job.lasting):
            (job.reached, job.lasting), job.vain = place, 0
        job.progress = progress

    def end(self, job: Kept, outcome: Report | Exception, now_ms: int) -> bool:
        """True: it failed by what may pass, and waits to be tried again."""
        if isinstance(outcome, Report):
            job.state, job.report, job.error = DONE, _brief(outcome), ""
        elif isinstance(outcome, Unavailable) and job.vain < self._tries:
            job.state, job.error = QUEUED, cut(str(outcome), MOST_WORDS)
            return True
        else:
            job.state, job.failed = FAILED, Failed.of(outcome)
            job.error = cut(str(outcome), MOST_WORDS)
        job.ended = now_ms
        return False

    def cancel(self, job_id: str, now_ms: int) -> Kept:
        """Raises NotFound, Conflict (it has ended)."""
        job = self.find(job_id)
        if job.state == CANCELLED:
            return job
        if job.state in ENDED:
            raise Conflict(f"job {job_id} is {job.state} already")
        job.state, job.ended = CANCELLED, now_ms
        return job

    def forget(self) -> list[Kept]:
        """The oldest that have ended, beyond how many are kept; none that still holds something."""
        over = [job for job in self._jobs.values() if job.state in ENDED]
        gone = [job for job in over[: max(0, len(over) - self._kept)] if job.released]
        for job in gone:
            del self._jobs[job.id]
        return gone

    def page(self, skip: int) -> Jobs:
        """Statuses of all but the first `skip`, at least one, and no more than fit."""
        found: list[JobStatus] = []
        size = 0
        left = self.all[max(0, skip) :]
        for job in left:
            if size > PAGE_BYTES:
                break
            found.append(job.status())
            size += len(msgspec.json.encode(found[-1]))
        return Jobs(found, more=len(found) < len(left))

    def encode(self) -> bytes:
        return msgspec.json.encode(self.all)

    @staticmethod
    def decode(data: bytes) -> list[Kept]:
        """Raises Corrupt."""
        try:
            return msgspec.json.decode(data, type=list[Kept])
        except NOT_READABLE as error:
            raise Corrupt(
                f"the list of jobs, jobs.json, can't be read: {error}",
                hint="delete it: what jobs have written stays, submitted again they go on there;"
                " `tidelog feed unregister FEED job-ID` gives up what the Pumps keep for the old",
            ) from error


def _refuse_no_feed(name: str) -> None:
    """Nothing can be held for its job."""
    try:
        check_name(name)
    except ValueError as error:
        raise BadInput(str(error), hint="`tidelog feed list` names those that are") from error


def _refuse_passwords(job: Job) -> None:
    fields = msgspec.to_builtins(job)
    for key in URLS:
        scheme, _, rest = fields.get(key, "").partition("://")
        user, _, place = rest.rpartition("@")
        bare = f"{scheme}://{place}"
        if ":" in user or redacted_url(bare) != bare:
            raise BadInput(
                f"{key} holds a password, and a submitted job is shown and kept",
                hint=_ELSEWHERE.get(key, _FROM_ITS_MACHINE),
            )
    if secret := next(filter(is_secret_setting, job.spark.settings), ""):
        raise BadInput(
            f"the setting {secret} is secret, and a submitted job is shown and kept",
            hint=_FROM_ITS_MACHINE,
        )


_ELSEWHERE = {
    key: "name a file of the service's machine by `password_file=` in the URL, or give the service"
    f" {key}-password-file"
    for key in ("downstream", "source")
}
_FROM_ITS_MACHINE = "let the service's machine have it: its environment, or Spark's own settings"


def _brief(report: Report) -> Report:
    """Of very many warnings the first."""
    warnings = [cut(one, WARNING_CHARS) for one in report.warnings[:MOST_WARNINGS]]
    if over := len(report.warnings) - len(warnings):
        warnings.append(f"and {over} more warnings, in the job's own lines")
    return msgspec.structs.replace(report, warnings=warnings)
