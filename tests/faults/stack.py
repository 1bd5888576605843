"""A whole topology as processes, under load, with everything that was committed accounted for.

nats-server, registry, two Pumps, Drainer, Applier, MariaDB. The load commits all the while; a plain
reader follows the stream message by message (`Reading`), and at the end the downstream's tables are
what was committed. What a rig does to it happens in between:

    async with Stack(...).loaded() as stack:
        ...
        await stack.caught_up("what was done")
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.subscriber import Subscriber
from tests.integration.drainer.ledger import Ledger, Reading
from tests.integration.drainer.load import CLUSTER, Load
from tests.integration.drainer.tables import DownstreamTables
from tests.integration.pump_client.cluster import Service
from tests.kills.chain import opened
from tests.servers import MariaDb, NatsServer
from tests.simulation.created import created
from tests.wrong import Wrong
from tidelog.actor import first_error
from tidelog.errors import EXIT_RESTART, TidelogError
from tidelog.pump_client import PumpClient
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng

FEED = "faults"
PUMPS = ("pump-1", "pump-2")
REGISTRY, DRAINER, APPLIER = "registry", "drainer", "applier"
RATE = 120
KINDS = {"small": 700, "several": 250, "fragments": 2, "ddl": 5}
FEWEST = 20
"""Commits between two faults, at least; a quiet run proves nothing."""
STUCK_S = 60.0
LOOK_S = 0.05
WRITE_TIMEOUT_S = 60.0
SERVICES = (REGISTRY, *PUMPS, DRAINER, APPLIER)


@dataclass
class Plan:
    """What differs from the plain topology, by service: where it finds NATS, what else it is told,
    where its data is. `grpc`: the load writes by gRPC, to the addresses that Pumps announce."""

    nats_urls: dict[str, str] = field(default_factory=dict)
    flags: dict[str, list[str]] = field(default_factory=dict)
    data: dict[str, Path] = field(default_factory=dict)
    downstream: str = ""
    grpc: bool = False
    subscriber: bool = False
    """The stream is read by the library, which rewinds, and not message by message."""
    orchestrated: Collection[str] = ()
    """Services that are started again when they end with EXIT_RESTART."""


class Stack:
    def __init__(
        self,
        nats: NatsServer,
        database: MariaDb,
        directory: Path,
        plan: Plan,
        *,
        seed: int,
        rate: int = RATE,
    ) -> None:
        self.ledger = Ledger()
        self.live: Reading | Subscriber = Reading(self.ledger, FEED)
        if plan.subscriber:
            self.live = Subscriber(self.ledger, FEED, nats.url, consumer="live")
        self.at_end: Callable[[], Awaitable[None]] = _nothing
        """What else is looked at once everything has arrived."""
        self.tables = DownstreamTables(database, self.ledger)
        self.doing = "start"
        self.load: Load
        self.client: PumpClient
        self.bus: NatsBus
        self.services = {
            name: Service(f"tidelog_{kind}", directory / name, [], data=plan.data.get(name))
            for name, kind in (
                (REGISTRY, "registry"),
                *((pump, "pump") for pump in PUMPS),
                (DRAINER, "drainer"),
                (APPLIER, "applier"),
            )
        }
        for name, service in self.services.items():
            service.flags = ["--nats-url", plan.nats_urls.get(name, nats.url), *_flags(name)]
            service.flags += plan.flags.get(name, [])
        downstream = plan.downstream or self.tables.url
        self.services[APPLIER].env["TIDELOG_APPLIER_DOWNSTREAM"] = downstream
        self.restarted: Counter[str] = Counter()
        self._orchestrated = plan.orchestrated
        self._url = nats.url
        self._seed, self._rate = seed, rate
        self._transport = "grpc" if plan.grpc else "nats"

    # Its life -------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def loaded(self) -> AsyncIterator[Stack]:
        """Raises Wrong. At its end everything has arrived."""
        self.tables.create()
        self.bus = await NatsBus.connect(self._url, timeout_s=10)
        try:
            await created(self.bus, CLUSTER, FEED)
            for service in self.services.values():
                service.start()
            for service in self.services.values():
                await asyncio.to_thread(service.wait)
            async with self._written():
                yield self
        finally:
            await self.bus.close()
            for service in reversed(self.services.values()):
                service.kill()

    @contextlib.asynccontextmanager
    async def _written(self) -> AsyncIterator[None]:
        try:
            async with PumpClient(
                self.bus,
                CLUSTER,
                0,
                RealClock(),
                RealRng(),
                transport=self._transport,
                write_timeout_s=WRITE_TIMEOUT_S,
            ) as self.client:
                self.load = Load(
                    self.bus,
                    self.client,
                    self.ledger,
                    seed=self._seed,
                    rate=self._rate,
                    kinds=KINDS,
                )
                self.load.behind = lambda: len(self.ledger.order) - self.live.checked
                await self.load.prepare()
                async with asyncio.TaskGroup() as group:
                    reading = group.create_task(self._follow())
                    loading = group.create_task(self.load.run())
                    await self.caught_up()
                    yield
                    await self._end(loading)
                    reading.cancel()
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from group_error

    async def _end(self, loading: asyncio.Task[None]) -> None:
        self.doing = f"the end, after {self.doing}"
        self.load.stop()
        await self.until(loading.done, "the load to end")
        if not await self.client.flush(STUCK_S):
            raise Wrong(f"{self.client.unacked} Commits are not acked")
        await self.arrived(self.ledger.last_commit_ts)
        if self.live.checked != len(self.ledger.order):
            raise Wrong(f"{len(self.ledger.order)} committed, {self.live.checked} read")
        await asyncio.to_thread(self.tables.compare, self.ledger.last_commit_ts)
        await self.at_end()

    async def _follow(self) -> None:
        if isinstance(self.live, Subscriber):
            await self.live.run()
            return
        reader = await opened(self.bus, FEED)
        try:
            while True:
                self.live.take(await reader.next_batch(500, 1.0))
        finally:
            await reader.close()

    # What is waited for ---------------------------------------------------------------------

    async def caught_up(self) -> float:
        """Some more is committed, and all that was is downstream. Seconds that it took."""
        began = time.monotonic()
        enough = len(self.ledger.order) + FEWEST
        await self.until(lambda: len(self.ledger.order) >= enough, "commits")
        await self.arrived(self.ledger.last_commit_ts)
        return time.monotonic() - began

    async def arrived(self, commit_ts: int) -> None:
        await self.until(lambda: self.live.position >= commit_ts, "the stream")
        deadline = time.monotonic() + STUCK_S
        while (await asyncio.to_thread(self.tables.checkpoint)).commit_ts < commit_ts:
            self.check()
            if time.monotonic() > deadline:
                raise self.stuck("the checkpoint")
            await asyncio.sleep(LOOK_S)  # nobody tells of the checkpoint's moves

    async def until(
        self, condition: Callable[[], bool], what: str, timeout_s: float = STUCK_S
    ) -> None:
        """Raises Wrong when it takes too long, or a process ended."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                raise self.stuck(what, timeout_s)
            await asyncio.sleep(LOOK_S)  # what the load and its reader do is no single event

    def check(self) -> None:
        """Raises Wrong if a process ended."""
        for name, service in self.services.items():
            if service.process is not None and service.process.poll() is not None:
                code = service.process.returncode
                if name in self._orchestrated and code == EXIT_RESTART:
                    service.start()
                    self.restarted[name] += 1
                    continue
                raise Wrong(f"{self.doing}: {name} ended with {code}:\n{service.log()}")

    def stuck(self, what: str, waited_s: float = STUCK_S) -> Wrong:
        told = "\n".join(
            f"--- {n}\n{s.log()[-1200:]}\n{_said(s)}" for n, s in self.services.items()
        )
        return Wrong(f"{self.doing}: waited {waited_s:.0f} s in vain for {what}\n{told}")


async def _nothing() -> None:
    return


def actors(service: Service) -> dict[str, dict[str, Any]]:
    """What its actors say of themselves. Raises OSError."""
    address = (service.data_dir / "http").read_text().strip()
    with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
        found: dict[str, dict[str, Any]] = json.load(answer)["actors"]
    return found


def _said(service: Service) -> str:
    try:
        return str(actors(service))[:4000]
    except OSError as error:
        return repr(error)


def _flags(name: str) -> Iterable[str]:
    match name:
        case "pump-1" | "pump-2":
            return ("--node-id", name, "--grpc-addr", "127.0.0.1:0")
        case "drainer":
            return ("--feed", FEED, "--ddl-history", "embedded")
        case "applier":
            return ("--feed", FEED, "--checkpoint-s", "0.3", "--txn-batch", "200")
    return ()


Wrongs = (Wrong, TidelogError)
