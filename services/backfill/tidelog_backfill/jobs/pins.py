"""What a job still needs, the Pumps do not purge: it is a consumer that the safe point waits for,
from its first try to its end. (What comes after a copy is held by the copy itself.)"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from tidelog.ask_registry import ask
from tidelog.errors import TidelogError
from tidelog.messages import Consumer, SafePoint, SafePointRequest
from tidelog.ports import Ports
from tidelog_backfill.jobs.queue import Kept

log = structlog.get_logger()

TIMEOUT_S = 2.0


class Pins:
    """`hold` is called again and again: the registry may have lost what it knew."""

    def __init__(self, ports: Ports, cluster: str) -> None:
        self._bus = ports.bus
        self._cluster = cluster
        self._failing = False

    async def hold(self, jobs: Iterable[Kept]) -> list[str]:
        """Tell the registry of each. Returns those it waits for no longer, and knows."""
        released = []
        try:
            for job in jobs:
                if job.released or not (job.tries or job.ended):
                    continue
                place = Consumer(job.consumer, job.job.feed, job.reached)
                await self._tell(SafePointRequest(place, remove=bool(job.ended)))
                if job.ended:
                    released.append(job.id)
        except TidelogError as error:
            if not self._failing:
                log.warning("what jobs need can't be held by the Pumps", why=str(error))
            self._failing = True
        else:
            self._failing = False
        return released

    async def _tell(self, request: SafePointRequest) -> None:
        await ask(self._bus, self._cluster, "safepoint", request, SafePoint, timeout_s=TIMEOUT_S)
