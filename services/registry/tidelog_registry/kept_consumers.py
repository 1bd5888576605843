"""The consumers while the registry runs: changed by what nodes announce and by requests, kept at
most once a second; one that was registered or removed by name is kept before that is answered."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import structlog

from tidelog.actor import Reply
from tidelog.errors import Refused, TidelogError, Unavailable
from tidelog.messages import Heartbeat, SafePoint, SafePointRequest
from tidelog.ports import Ports
from tidelog_registry import metrics
from tidelog_registry.consumer_store import ConsumerStore
from tidelog_registry.consumers import Consumers, Kept
from tidelog_registry.tenure import Tenure

log = structlog.get_logger()

RETRY_S = 0.3
KEEP_S = 1.0
PINS = 64


class KeptConsumers:
    """The directory's; `load` first, `keep` for ever. `safe_point` says what to answer."""

    def __init__(
        self, ports: Ports, cluster: str, tenure: Tenure, safe_point: Callable[[], int]
    ) -> None:
        self._clock = ports.clock
        self._store = ConsumerStore(ports, cluster, tenure)
        self._safe_point = safe_point
        self._saved = Kept()
        self.consumers = Consumers(self._saved)
        self._pinning: deque[Reply[SafePoint]] = deque()
        self._pinned = asyncio.Event()

    async def load(self) -> None:
        while True:
            try:
                self._saved = await self._store.load()
                break
            except Unavailable as error:
                log.warning("the kept consumers can't be read yet", reason=str(error))
                await self._clock.sleep(RETRY_S)
        self.consumers = Consumers(self._saved)

    def announced(self, heartbeat: Heartbeat) -> None:
        refused = self.consumers.refused
        self.consumers.announced(heartbeat)
        metrics.CONSUMERS_REFUSED.inc(self.consumers.refused - refused)

    def ask(self, body: SafePointRequest, reply: Reply[SafePoint]) -> None:
        try:
            if body.consumer is not None and body.remove:
                self.consumers.remove(body.consumer.feed, body.consumer.name)
            elif body.consumer is not None:
                self.consumers.put(body.consumer)
        except TidelogError as error:
            reply.fail(error)
            return
        if body.consumer is None:
            reply.set(SafePoint(self._safe_point()))
            return
        self._pinning.append(reply)
        if len(self._pinning) > PINS:
            self._pinning.popleft().fail(Refused("too many consumers change at once"))
        self._pinned.set()

    async def keep(self) -> None:
        while True:
            await self._wait_pinned()
            replies, self._pinning = self._pinning, deque()
            kept = self.consumers.kept()
            try:
                if kept != self._saved:
                    await self._store.save(kept)
                    self._saved = kept
            except Unavailable as error:
                log.info("consumers not kept yet", reason=str(error))
                for reply in replies:
                    reply.fail(error)
            else:
                for reply in replies:
                    reply.set(SafePoint(self._safe_point()))

    async def _wait_pinned(self) -> None:
        try:
            async with asyncio.timeout(KEEP_S):
                await self._pinned.wait()
        except TimeoutError:
            return
        finally:
            self._pinned.clear()
