"""What jobs still need, the Pumps do not purge: each is a consumer that the safe point waits for,
while it runs; and a copy for a while after, as only what follows it makes it worth something."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from tidelog.bulk.control import DONE, RUNNING
from tidelog.bulk.jobs import BackfillJob
from tidelog.errors import TidelogError
from tidelog.ports import Ports
from tidelog.subscriber.registration import Registration
from tidelog_backfill.jobs.queue import Kept

log = structlog.get_logger()


class Pins:
    """`hold_s`: how long after a backfill its place is held, if nobody else takes over."""

    def __init__(self, ports: Ports, cluster: str, hold_s: float) -> None:
        self._bus = ports.bus
        self._clock = ports.clock
        self._cluster = cluster
        self._hold_s = hold_s
        self._failing = False

    async def hold(self, jobs: Iterable[Kept]) -> list[str]:
        """Tell the registry of each. Returns those it waits for no longer, and knows."""
        released = []
        for job in jobs:
            if job.released or not (job.tries or job.ended):
                continue
            try:
                if job.state == RUNNING or self._is_held(job):
                    await self._place(job).move(job.position, now=True)
                elif job.ended:
                    await self._place(job).remove()
                    released.append(job.id)
            except TidelogError as error:
                if not self._failing:
                    log.warning("what a job needs can't be held", job=job.id, why=str(error))
                self._failing = True
                return released
        self._failing = False
        return released

    def _place(self, job: Kept) -> Registration:
        return Registration(self._bus, self._clock, self._cluster, job.job.feed, job.consumer)

    def _is_held(self, job: Kept) -> bool:
        waited_s = (self._clock.wall_ms() - job.ended) / 1000
        is_copy = isinstance(job.job, BackfillJob) and not job.job.parquet
        return job.state == DONE and is_copy and waited_s < self._hold_s
