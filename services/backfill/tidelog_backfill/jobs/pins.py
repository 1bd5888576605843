"""What a job still needs, the Pumps do not purge: it is a consumer that the safe point waits for,
from its first try to its end. (What comes after a copy is held by the copy itself.)"""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from tidelog.ask_registry import ask
from tidelog.errors import TidelogError, Unavailable
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
        self._why = ""

    async def hold(self, jobs: Iterable[Kept]) -> list[str]:
        """Tell the registry of each. Returns those it waits for no longer, and knows."""
        released, why = [], ""
        for job in jobs:
            if job.released or not (job.tries or job.ended):
                continue
            place, is_over = Consumer(job.consumer, job.job.feed, job.reached), bool(job.ended)
            try:
                await self._tell(SafePointRequest(place, remove=is_over))
            except Unavailable as error:
                why = str(error)
                break  # nobody answers, and each of the others would wait as long
            except TidelogError as error:
                why = str(error)  # it alone is refused
                continue
            if is_over:  # it may have ended while this was asked
                released.append(job.id)
        if why and why != self._why:
            log.warning("what jobs need can't be held by the Pumps", why=why)
        self._why = why
        return released

    async def _tell(self, request: SafePointRequest) -> None:
        await ask(self._bus, self._cluster, "safepoint", request, SafePoint, timeout_s=TIMEOUT_S)
