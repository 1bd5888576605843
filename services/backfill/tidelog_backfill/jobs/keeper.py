"""Takes jobs over NATS, keeps them durably, and has one at a time done in a process of its own.

A job is kept before it is answered; a service that is started again goes on with it. Until it has
ended, it is a consumer that the Pumps' safe point waits for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import msgspec
import structlog

from tidelog import subjects
from tidelog.actor import Actor, Reply
from tidelog.bulk.control import RUNNING, AskJobs, Cancel, Jobs, JobStatus, Submit
from tidelog.bulk.jobs import Job
from tidelog.bulk.told import Progress, Report
from tidelog.errors import DiskFull, NotFound, TidelogError
from tidelog.messages import encode
from tidelog.ports import Ports
from tidelog.questions import serve_questions
from tidelog_backfill import metrics
from tidelog_backfill.config import BackfillConfig
from tidelog_backfill.jobs.pins import Pins
from tidelog_backfill.jobs.queue import Kept, Queue

log = structlog.get_logger()

JOBS_FILE = "jobs.json"
RETRY_S = 5.0
PIN_S = 2.0


class Runner(Protocol):
    """Does jobs; `tidelog.bulk.process.JobProcesses` is the real one."""

    async def run(self, job_id: str, job: Job, told: Callable[[Progress], None]) -> Report:
        """To its end; cancelled, nothing of it runs any more. Raises what it fails by."""

    async def forget(self, job_id: str) -> None:
        """Its files are needed no more."""


class Submitted(msgspec.Struct, frozen=True):
    asked: Submit
    reply: Reply[JobStatus]


class Asked(msgspec.Struct, frozen=True):
    asked: AskJobs
    reply: Reply[Jobs]


class Unwanted(msgspec.Struct, frozen=True):
    asked: Cancel
    reply: Reply[JobStatus]


class Ended(msgspec.Struct, frozen=True):
    """Its process is no more. None: it was cancelled."""

    id: str
    outcome: Report | Exception | None


class Released(msgspec.Struct, frozen=True):
    """The Pumps need keep nothing for it any more, and know."""

    id: str


Mail = Submitted | Asked | Unwanted | Ended | Released


class JobKeeper(Actor[Mail]):
    tick_s = 0.5

    def __init__(self, config: BackfillConfig, ports: Ports, runner: Runner) -> None:
        self._config = config
        self._ports = ports
        self._runner = runner
        self._queue: Queue
        self._attempt: asyncio.Task[None] | None = None
        self._outcome: Report | Exception | None = None
        self._attempted = ""
        self._not_before = 0.0
        self._told: Progress | None = None
        self._is_noted = True
        self._drops_events = False

    async def on_start(self) -> None:
        disk, config = self._ports.disk, self._config
        kept = Queue.decode(disk.read_file(JOBS_FILE)) if disk.exists(JOBS_FILE) else []
        self._queue = Queue(kept, waiting=config.queue, kept=config.kept, tries=config.tries)
        self._serve("submit", Submit, Submitted)
        self._serve("status", AskJobs, Asked)
        self._serve("cancel", Cancel, Unwanted)
        self.spawn(self._hold(), "hold")
        await self._begin()

    def _serve(self, verb: str, kind: type[Any], mail: Callable[[Any, Reply[Any]], Mail]) -> None:
        subject = subjects.backfill(self._config.cluster, self._config.node, verb)
        serving = serve_questions(self._ports.bus, subject, kind, self.self_ref, mail)
        self.spawn(serving, verb)

    async def on_batch(self, batch: list[Mail]) -> None:
        for message in batch:
            match message:
                case Submitted():
                    await self._answer(message.reply, self._submit, message.asked)
                case Unwanted():
                    await self._answer(message.reply, self._cancel, message.asked)
                case Asked(asked=AskJobs(id="")):
                    message.reply.set(self._queue.page(message.asked.skip))
                case Asked():
                    self._show(message)
                case Ended():
                    await self._end(message)
                case Released():
                    await self._release(message.id)
        await self._begin()

    async def _answer(self, reply: Reply[JobStatus], act: Callable[[Any], Any], asked: Any) -> None:
        try:
            job: Kept = await act(asked)
        except TidelogError as error:
            reply.fail(error)
            return
        reply.set(job.status())
        await self._publish(job)

    async def _submit(self, asked: Submit) -> Kept:
        with self._queue.undone():
            job = self._queue.submit(asked.id, asked.job, self._ports.clock.wall_ms())
            await self._save()
        log.info("job taken", job=job.id, state=job.state)
        return job

    async def _cancel(self, asked: Cancel) -> Kept:
        with self._queue.undone():
            job = self._queue.cancel(asked.id, self._ports.clock.wall_ms())
            await self._save()
        log.info("job cancelled", job=job.id)
        if self._attempted == job.id:
            self._cancel_attempt()
        return job

    def _show(self, message: Asked) -> None:
        try:
            message.reply.set(Jobs([self._queue.find(message.asked.id).status()]))
        except TidelogError as error:
            message.reply.fail(error)

    async def _begin(self) -> None:
        """The next job, once nothing of the last one runs."""
        if self._attempt is not None or self._ports.clock.monotonic() < self._not_before:
            return
        try:
            with self._queue.undone():
                job = self._queue.begin(self._ports.clock.wall_ms())
                if job is None:
                    return
                await self._save()
        except DiskFull as error:
            log.warning("no job begins", why=str(error))
            self._not_before = self._ports.clock.monotonic() + RETRY_S
            return
        log.info("job begins", job=job.id, tries=job.tries)
        self._outcome, self._attempted = None, job.id
        self._attempt = self.spawn(self._try(job), f"job-{job.id}")
        self.spawn(self._watch(self._attempt, job.id), "watch")
        await self._publish(job)

    async def _try(self, job: Kept) -> None:
        try:
            self._outcome = await self._runner.run(
                job.id, self._placed(job.job), lambda told: self._queue.told(job, told)
            )
        except Exception as error:  # noqa: BLE001 (what nobody foresaw ends this job, and no other)
            self._outcome = error

    async def _watch(self, attempt: asyncio.Task[None], job_id: str) -> None:
        await asyncio.wait([attempt])
        await self.self_ref.tell(Ended(job_id, self._outcome))

    def _placed(self, job: Job) -> Job:
        """What this node knows better than who submitted it."""
        config = self._config
        spark = msgspec.structs.replace(
            job.spark,
            master=config.master or job.spark.master,
            memory=config.memory or job.spark.memory,
        )
        return msgspec.structs.replace(
            job,
            cluster=config.cluster,
            nats_url=config.nats_url,
            cluster_id=job.cluster_id or config.cluster_id,
            spark=spark,
        ).with_access(config.access)

    async def _end(self, ended: Ended) -> None:
        self._attempt = None
        job = self._queue.find(ended.id)
        if ended.outcome is not None and job.state == RUNNING:
            if self._queue.end(job, ended.outcome, self._ports.clock.wall_ms()):
                self._not_before = self._ports.clock.monotonic() + RETRY_S
            metrics.ENDED.labels(job.state).inc()
            log.info("job ended", job=job.id, state=job.state, why=job.error)
        gone = self._queue.forget()
        await self._note()
        for old in gone:
            await self._runner.forget(old.id)
        await self._publish(job)

    async def _release(self, job_id: str) -> None:
        """Not one whose cancel could not be kept after all: it is held again. Told twice, while the
        first word waited here, it may be forgotten by now."""
        try:
            job = self._queue.find(job_id)
        except NotFound:
            return
        if job.ended:
            job.released = True
            await self._note()

    async def on_tick(self) -> None:
        """Progress is told a few times a second at most."""
        job = self._queue.running
        if job is not None and job.progress is not self._told:
            self._told = job.progress
            await self._publish(job)
        if not self._is_noted:
            await self._note()
        await self._begin()

    def status(self) -> dict[str, object]:
        job = self._queue.running
        shown: dict[str, object] = {"jobs": self._queue.counts()}
        if job is not None:
            shown |= {"job": job.id, "tries": job.tries}
            if job.progress is not None:
                shown["running"] = msgspec.to_builtins(job.progress)
        return shown

    async def on_stop(self) -> None:
        """The job that runs is ended, and goes on at the next start."""
        if (attempt := self._cancel_attempt()) is not None:
            await asyncio.wait([attempt])

    def _cancel_attempt(self) -> asyncio.Task[None] | None:
        """Once: it takes a while, and a second time would cut that short."""
        if self._attempt is not None and not self._attempt.cancelling():
            self._attempt.cancel()
        return self._attempt

    async def _save(self) -> None:
        """Raises DiskFull, IoFailed."""
        await self._ports.disk.write_file(JOBS_FILE, self._queue.encode())
        self._is_noted = True

    async def _note(self) -> None:
        """What has happened is so, whether there is room to keep it or not: then it is tried again.
        A start in between does the job once more, which changes nothing."""
        try:
            await self._save()
        except DiskFull as error:
            if self._is_noted:
                log.warning("what became of jobs can't be kept", why=str(error))
            self._is_noted = False

    async def _publish(self, job: Kept) -> None:
        """What can't be sent is dropped: who missed it asks for the status."""
        subject = subjects.backfill(self._config.cluster, self._config.node, f"event.{job.id}")
        try:
            await self._ports.bus.publish(subject, encode(job.status()))
        except TidelogError as error:
            metrics.EVENTS_DROPPED.inc()
            if not self._drops_events:
                log.warning("events of jobs are dropped", why=str(error))
            self._drops_events = True
        else:
            self._drops_events = False

    async def _hold(self) -> None:
        pins = Pins(self._ports, self._config.cluster)
        while True:
            for job_id in await pins.hold(self._queue.all):
                await self.self_ref.tell(Released(job_id))
            await self._ports.clock.sleep(PIN_S)
