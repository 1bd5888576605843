"""The embedded oracle: one allocator under a fenced lease (I9).

A timestamp is given only below a bound that is durable in the data directory and in the registry
bucket, and only while the registry's lease is held (`Tenure`). The next allocator begins when
nobody else can hold it, makes the record its own, and starts above the bound it found: so no
timestamp is ever given after a larger one.
"""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec
import structlog

from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import BadInput, Conflict, DiskFull, Overloaded, Unavailable
from tidelog.failpoints import hit
from tidelog.messages import TsoReply
from tidelog.ports import Ports
from tidelog_registry import metrics
from tidelog_registry.lease.tenure import Tenure
from tidelog_registry.mail import AskFloor, DirectoryMail, Floor
from tidelog_registry.oracle.allocator import MAX_COUNT, Allocator
from tidelog_registry.oracle.store import BoundStore

log = structlog.get_logger()

RENEW_S = 1.0
RETRY_S = 0.2
PATIENCE_S = 0.7
"""An ask waits this long for the allocator, and a tick; its caller hears why, and asks again each
second."""
WAITING = 8192


class Take(msgspec.Struct, frozen=True):
    """`count` timestamps, ending with the one in the answer."""

    count: int
    reply: Reply[TsoReply]


class Tso(Actor[Take]):
    tick_s = 0.25

    def __init__(
        self, ports: Ports, cluster: str, tenure: Tenure, directory: Ref[DirectoryMail]
    ) -> None:
        self._ports = ports
        self._tenure = tenure
        self._directory = directory
        self._store = BoundStore(ports, cluster, tenure)
        self._allocator: Allocator | None = None
        self._waiting: deque[tuple[Take, float]] = deque()
        self._short = asyncio.Event()
        self._reason = "it has just started"

    async def on_start(self) -> None:
        self.spawn(self._live(), "live")

    async def on_batch(self, batch: list[Take]) -> None:
        give_up = self._ports.clock.monotonic() + PATIENCE_S
        for ask in batch:
            if not 1 <= ask.count <= MAX_COUNT:
                ask.reply.fail(BadInput(f"{ask.count} timestamps at once", hint="1 to 262144"))
            elif len(self._waiting) >= WAITING:
                ask.reply.fail(Overloaded("too many ask for timestamps"))
            else:
                self._waiting.append((ask, give_up))
        self._serve()

    async def on_tick(self) -> None:
        self._serve()
        now = self._ports.clock.monotonic()
        while self._waiting and self._waiting[0][1] <= now:
            ask, _ = self._waiting.popleft()
            metrics.TSO_ASKS_EXPIRED.inc()
            ask.reply.fail(Unavailable(f"no timestamps yet: {self._reason}"))

    def status(self) -> dict[str, object]:
        allocator = self._allocator
        return {
            "owner": self._store.owner,
            "last_ts": allocator.last if allocator else 0,
            "bound_ts": allocator.bound if allocator else 0,
            "waiting": len(self._waiting),
            "reason": self._reason,
        }

    def _serve(self) -> None:
        """Answer all that waits, as far as bound and lease allow."""
        clock, allocator = self._ports.clock, self._allocator
        if allocator is None:
            return
        wall_ms = clock.wall_ms()
        given = 0
        if self._tenure.holds():
            while self._waiting:
                ask = self._waiting[0][0]
                last = allocator.take(ask.count, wall_ms)
                if last is None:
                    break
                self._waiting.popleft()
                given += ask.count
                ask.reply.set(TsoReply(last))
        metrics.TIMESTAMPS.inc(given)
        if self._waiting or allocator.wants_more(wall_ms):
            self._short.set()

    # The bound ------------------------------------------------------------------------------

    async def _live(self) -> None:
        own = await self._store.open()
        await self._until_alone()
        recorded = await self._claim()
        hit("registry.tso.claimed")
        floor = await self._settled_floor()
        self._allocator = Allocator(max(own, recorded, floor))
        log.info("the oracle starts", above=self._allocator.last)
        while True:
            if self._allocator.wants_more(self._ports.clock.wall_ms()):
                await self._extend(self._allocator)
            self._serve()
            await self._until_short()
            self._allocator.raise_floor((await self._floor()).ts)

    async def _until_alone(self) -> None:
        """An earlier holder of the lease may still be giving timestamps."""
        self._reason = "the lease of an earlier allocator has to run out"
        wait_s = self._tenure.alone_from - self._ports.clock.monotonic()
        await self._ports.clock.sleep(max(0.0, wait_s))

    async def _claim(self) -> int:
        """The bound in the record, which is ours from now on."""
        while True:
            try:
                self._tenure.check()
                return await self._store.claim()
            except (Conflict, Unavailable) as error:
                self._reason = str(error)
                await self._ports.clock.sleep(RETRY_S)

    async def _settled_floor(self) -> int:
        """What all others know, once nobody is missing who may know more."""
        while True:
            floor = await self._floor()
            if not floor.waits_for:
                return floor.ts
            self._reason = f"it waits for {', '.join(floor.waits_for)}"
            await self._ports.clock.sleep(RETRY_S)

    async def _floor(self) -> Floor:
        return await self._directory.ask(AskFloor)

    async def _extend(self, allocator: Allocator) -> None:
        while True:
            bound = allocator.target(self._ports.clock.wall_ms())
            try:
                self._tenure.check()
                await self._store.extend(bound)
            except (Unavailable, DiskFull) as error:
                self._reason = str(error)
                await self._ports.clock.sleep(RETRY_S)
                continue
            hit("registry.tso.extended")
            allocator.extend(bound)
            self._reason = ""
            return

    async def _until_short(self) -> None:
        """Until the bound comes near its end."""
        self._short.clear()
        try:
            async with asyncio.timeout(RENEW_S):
                await self._short.wait()
        except TimeoutError:
            return
