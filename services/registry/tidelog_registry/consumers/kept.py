"""The consumers while the registry runs: changed by what nodes announce and by requests, kept at
most once a second; one that was registered or removed by name is kept before that is answered. So
is an operator's order to a reader."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import structlog
from msgspec.structs import replace

from tidelog.actor import Reply
from tidelog.errors import DiskFull, MessageTooLarge, Overloaded, TidelogError, Unavailable
from tidelog.messages import Heartbeat, SafePoint, SafePointRequest
from tidelog.ports import Ports
from tidelog_registry import metrics
from tidelog_registry.consumers.consumers import Consumers, Kept
from tidelog_registry.consumers.store import ConsumerStore
from tidelog_registry.lease.tenure import Tenure
from tidelog_registry.nodes.node import ReaderOrder

log = structlog.get_logger()

RETRY_S = 0.3
KEEP_S = 1.0
PINS = 64

T = TypeVar("T")
_Waiting = tuple[Reply[Any], Callable[[], Any]]


class KeptConsumers:
    """The directory's; `load` first, `keep` for ever. `safe_point` says what to answer, `orders`
    what to keep of readers."""

    def __init__(
        self,
        ports: Ports,
        cluster: str,
        tenure: Tenure,
        safe_point: Callable[[], int],
        orders: Callable[[], list[ReaderOrder]],
    ) -> None:
        self._clock = ports.clock
        self._store = ConsumerStore(ports, cluster, tenure)
        self._safe_point = safe_point
        self._orders = orders
        self._saved: Kept | None = None
        """None where file and bucket may have something else: a write failed."""
        self.consumers = Consumers(Kept())
        self._waiting: deque[_Waiting] = deque()
        self._wanted = asyncio.Event()

    async def load(self) -> list[ReaderOrder]:
        """Returns the orders. Raises Corrupt, Stopped."""
        while True:
            try:
                saved = self._saved = await self._store.load()
                break
            except (Unavailable, DiskFull) as error:
                log.warning("the kept consumers can't be read yet", reason=str(error))
                await self._clock.sleep(RETRY_S)
        self.consumers = Consumers(saved)
        return saved.orders

    def announced(self, heartbeat: Heartbeat) -> None:
        refused = self.consumers.refused
        self.consumers.announced(heartbeat)
        metrics.CONSUMERS_REFUSED.inc(self.consumers.refused - refused)

    def ask(self, body: SafePointRequest, reply: Reply[SafePoint]) -> None:
        """Overloaded is a definite answer: it is given before anything is changed."""
        try:
            if body.consumer is not None and self._is_full:
                raise Overloaded("too much changes at once")
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
        self.when_kept(reply, lambda: SafePoint(self._safe_point()))

    def when_kept(self, reply: Reply[T], answer: Callable[[], T]) -> None:
        """Answer once everything is kept as it is now; what is asked about is in force by now."""
        if self._is_full:
            reply.fail(Unavailable("not kept yet: too much changes at once", hint="ask again"))
        else:
            self._waiting.append((reply, answer))
        self._wanted.set()

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) >= PINS

    async def keep(self) -> None:
        while True:
            await self._until_wanted()
            waiting, self._waiting = self._waiting, deque()
            kept = replace(self.consumers.kept(), orders=self._orders())
            try:
                if kept != self._saved:
                    self._saved = None
                    await self._store.save(kept)
                    self._saved = kept
            except (Unavailable, DiskFull, MessageTooLarge) as error:
                log.info("consumers not kept yet", reason=str(error))
                for reply, _ in waiting:
                    # Not a definite one: it is kept as soon as that works.
                    reply.fail(Unavailable(f"not kept yet: {error.message}", hint=error.hint))
            else:
                for reply, answer in waiting:
                    reply.set(answer())

    async def _until_wanted(self) -> None:
        try:
            async with asyncio.timeout(KEEP_S):
                await self._wanted.wait()
        except TimeoutError:
            return
        finally:
            self._wanted.clear()
