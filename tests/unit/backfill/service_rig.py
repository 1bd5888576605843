"""The backfill service in the simulator, its jobs done by nobody but a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from tests.unit.registry.nodes import CLUSTER
from tidelog import subjects
from tidelog.bulk.control import AskJobs, Cancel, Jobs, JobStatus, Submit
from tidelog.bulk.jobs import Job, ReplayJob
from tidelog.bulk.told import Progress, Report
from tidelog.messages import decode_reply, encode
from tidelog.ports import Bus
from tidelog.sim.world import World
from tidelog_backfill.config import NODE, BackfillConfig
from tidelog_backfill.service import build

CONFIG = BackfillConfig(cluster=CLUSTER, nats_url="nats://here", queue=2, kept=2, tries=3)
JOB = ReplayJob(inputs=("relay",), downstream="mysql://copy@db/")
END_TS = 900
S = TypeVar("S", bound=msgspec.Struct)


class Clockwork:
    """A job takes ten steps of `step_s`; `fails` are raised by the tries to come, halfway."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.step_s = 1.0
        self.fails: list[Exception] = []
        self.warnings: list[str] = []
        self.running: list[str] = []
        self.began: list[str] = []
        self.jobs: list[Job] = []
        self.forgotten: list[str] = []

    async def run(self, job_id: str, job: Job, told: Callable[[Progress], None]) -> Report:
        assert not self.running
        self.running.append(job_id)
        self.began.append(job_id)
        self.jobs.append(job)
        try:
            for step in range(10):
                await asyncio.sleep(self.step_s)
                told(Progress("replaying", step + 1, 10, "steps", commit_ts=100 + step))
                if step == 5 and self.fails:
                    raise self.fails.pop(0)
            return Report(END_TS, warnings=self.warnings)
        finally:
            await asyncio.sleep(0.1)  # a process takes a while to end
            self.running.remove(job_id)

    async def forget(self, job_id: str) -> None:
        self.forgotten.append(job_id)


class Client:
    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def _ask(self, verb: str, body: msgspec.Struct, kind: type[S]) -> S:
        subject = subjects.backfill(CLUSTER, NODE, verb)
        answer = await self._bus.request(subject, encode(body), timeout_s=5)
        return decode_reply(answer.data, kind)

    async def submit(self, job_id: str, job: Job = JOB) -> JobStatus:
        return await self._ask("submit", Submit(job_id, job), JobStatus)

    async def cancel(self, job_id: str) -> JobStatus:
        return await self._ask("cancel", Cancel(job_id), JobStatus)

    async def all(self) -> list[JobStatus]:
        return (await self._ask("status", AskJobs(), Jobs)).jobs

    async def one(self, job_id: str) -> JobStatus:
        return (await self._ask("status", AskJobs(job_id), Jobs)).jobs[0]

    async def until(self, world: World, job_id: str, state: str) -> JobStatus:
        async with asyncio.timeout(200):
            while (found := await self.one(job_id)).state != state:
                await world.sleep(0.2)
        return found


async def started(world: World, config: BackfillConfig = CONFIG) -> tuple[Client, Clockwork]:
    clockwork = Clockwork(world)
    world.node("backfill").start(partial(build, runner=clockwork), config)
    await world.sleep(1)
    return Client(world.ports().bus), clockwork
