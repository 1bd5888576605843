"""Bulk jobs (`tidelog.bulk`): done here by a process of their own, or by a backfill service."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from rich.text import Text

from tidelog import subjects
from tidelog.bulk.control import DONE, ENDED, QUEUED, AskJobs, Cancel, Jobs, JobStatus, Submit
from tidelog.bulk.jobs import Job
from tidelog.bulk.process import JobProcessEnded, JobProcesses
from tidelog.bulk.told import Progress, Report
from tidelog.errors import Refused, Unavailable
from tidelog.messages import decode_reply, encode
from tidelog.ports import Bus
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.real.processes import RealProcesses
from tidelog.real.rng import RealRng
from tidelog_cli.connect import TIMEOUT_S
from tidelog_cli.terminal import patience, say

NODE = "backfill"
"""The node id of a service that was given none."""
POLL_S = 0.5
LAST_WORDS = 8
SILENT = "the service does not answer; it is waited for"
S = TypeVar("S", bound=msgspec.Struct)
Told = Callable[[Progress], None]


async def do_here(job: Job, told: Told, *, env: Mapping[str, str] | None = None) -> Report:
    """In a child process. Cancelled (Ctrl-C), it ends that first. Raises what the job fails by."""
    home = Path(tempfile.mkdtemp(prefix="tidelog-job-"))
    processes = JobProcesses(RealProcesses(), RealDisk(home), RealClock(), home, env=env)
    try:
        return await processes.run("job", job, told)
    except JobProcessEnded as error:
        words = (home / "job.log").read_text(errors="replace").splitlines()
        for line in words[-LAST_WORDS:]:
            say(Text(line, "dim"))
        hint = "its last words stand above; the same command goes on where it was"
        raise JobProcessEnded(
            error.message, hint=hint
        ) from error  # its log goes with its directory
    except asyncio.CancelledError:
        say(Text("ended; the same command goes on where it was"))
        raise
    finally:
        shutil.rmtree(home, ignore_errors=True)


class Service:
    """A backfill service of the cluster."""

    def __init__(self, bus: Bus, cluster: str, node: str = NODE) -> None:
        self._bus = bus
        self._cluster = cluster
        self._node = node

    async def submit(self, job: Job) -> JobStatus:
        """Taken and kept when it returns. Raises Overloaded, BadInput, Unavailable."""
        return await self._ask("submit", Submit(RealRng().token()[:8], job), JobStatus)

    async def jobs(self, job_id: str = "") -> list[JobStatus]:
        """All, or that one. Raises NotFound, Unavailable."""
        found: list[JobStatus] = []
        while True:
            page = await self._ask("status", AskJobs(job_id, len(found)), Jobs)
            found += page.jobs
            if not page.more:
                return found

    async def cancel(self, job_id: str) -> JobStatus:
        """Raises NotFound, Conflict, Unavailable."""
        return await self._ask("cancel", Cancel(job_id), JobStatus)

    async def follow(self, job_id: str, told: Callable[[JobStatus], None]) -> JobStatus:
        """Until it has ended, over restarts of the service. Raises NotFound."""
        while True:
            try:
                (status,) = await self.jobs(job_id)
                told(status)
                if status.state in ENDED:
                    return status
            except Unavailable:
                told(JobStatus(job_id, "", QUEUED, {}, error=SILENT))
            await asyncio.sleep(POLL_S)

    async def _ask(self, verb: str, body: msgspec.Struct, kind: type[S]) -> S:
        subject = subjects.backfill(self._cluster, self._node, verb)
        try:
            with patience(f"the backfill service {self._node!r}"):
                answer = await self._bus.request(subject, encode(body), timeout_s=TIMEOUT_S)
        except Unavailable as error:
            raise Unavailable(
                f"no backfill service {self._node!r} answers: {error.message}",
                hint="start one (python -m tidelog_backfill), or do the job here with --local",
            ) from error
        return decode_reply(answer.data, kind)


def outcome(status: JobStatus) -> Report:
    """Raises what the job failed by."""
    if status.state == DONE and status.report is not None:
        return status.report
    if status.failed is not None:
        raise status.failed.error()
    raise Refused(f"job {status.id} is {status.state}", hint="submit it again, it goes on there")
