"""What a job still needs, the Pumps do not purge: it is a consumer that the safe point waits for,
from its first try to its end. (What comes after a copy is held by the copy itself.)"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from tidelog.errors import TidelogError
from tidelog.ports import Ports
from tidelog.subscriber.registration import Registration
from tidelog_backfill.jobs.queue import Kept

log = structlog.get_logger()


class Pins:
    def __init__(self, ports: Ports, cluster: str) -> None:
        self._bus = ports.bus
        self._clock = ports.clock
        self._cluster = cluster
        self._failing = False

    async def hold(self, jobs: Iterable[Kept]) -> list[str]:
        """Tell the registry of each. Returns those it waits for no longer, and knows."""
        released = []
        for job in jobs:
            if job.released or not (job.tries or job.ended):
                continue
            try:
                if job.ended:
                    await self._place(job).remove()
                    released.append(job.id)
                else:
                    await self._place(job).move(job.reached, now=True)
            except TidelogError as error:
                if not self._failing:
                    log.warning("what a job needs can't be held", job=job.id, why=str(error))
                self._failing = True
                return released
        self._failing = False
        return released

    def _place(self, job: Kept) -> Registration:
        return Registration(self._bus, self._clock, self._cluster, job.job.feed, job.consumer)
