"""kill -9 of a Drainer: `python -m tests.integration.drainer.kill_rig --kills 100`.

Real processes: nats-server, registry, two Pumps, the Drainer. It is killed at random: under load,
while it starts, around an append, between the parts of a transaction that is larger than an atomic
batch. A plain reader follows the stream all the while, over every kill; at the end another one
reads all of it from the start. Both must see each transaction once, in order, gapless (I5), row for
row as it was written.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from tests.integration.drainer.kill_ledger import Ledger, Reading
from tests.integration.drainer.kill_load import CLUSTER, Load
from tests.integration.kill_command import command
from tests.integration.pump_client.cluster import Service
from tests.integration.victim import STUCK_S, Victim, Wrong
from tests.last_line import last_line
from tests.servers import NatsServer
from tests.simulation.created import created
from tidelog.actor import first_error
from tidelog.errors import StreamMissing, Unavailable
from tidelog.ports import StreamReader
from tidelog.pump_client import PumpClient
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng
from tidelog.subjects import changes_stream

FEED = "rig"
RATE = 60
FEWEST = 12
"""Transactions between a start and a kill under load, at least; a quiet run proves nothing."""
POINTS = {
    "before append": ("drainer.tail.before_append", 40),
    "after append": ("drainer.tail.after_append", 40),
    "between parts": ("drainer.tail.between_parts", 12),
}
"""The failpoint, and at which of its first passages it kills, at the latest."""
MOMENTS = ("load", "load", "start", "start", *POINTS, "between parts")
BATCHES = (1000, 300, 100)
"""Messages of an atomic batch: of less than a transaction has, it makes more parts."""


class Rig:
    def __init__(self, nats: NatsServer, directory: Path, *, kills: int, seed: int) -> None:
        self.ledger = Ledger()
        self.live, self.whole = Reading(self.ledger, FEED), Reading(self.ledger, FEED)
        self.load: Load
        self.seconds = 0.0
        self._rng = random.Random(seed)
        self._seed, self._wanted, self._url = seed, kills, nats.url
        self._rate = RATE
        common = ["--nats-url", nats.url]
        self._others = [Service("tidelog_registry", directory / "registry", common)]
        for node in ("pump-1", "pump-2"):
            flags = [*common, "--node-id", node, "--grpc-addr", "127.0.0.1:0"]
            self._others.append(Service("tidelog_pump", directory / node, flags))
        self._flags = [*common, "--feed", FEED, "--ddl-history", "embedded"]
        drainer = Service("tidelog_drainer", directory / "drainer", self._flags)
        self.victim = Victim(drainer, POINTS, self._rng)

    @property
    def kills(self) -> Counter[str]:
        return self.victim.kills

    # The Drainer's life ---------------------------------------------------------------------

    def _start(self, moment: str) -> None:
        size = 100 if moment == "between parts" else self._rng.choice(BATCHES)
        self.victim.service.flags = [*self._flags, "--batch-messages", str(size)]
        self.victim.start(moment)

    async def _ready(self) -> bool:
        return await self.victim.ready()

    async def _round(self, moment: str) -> None:
        target = self.ledger.last_commit_ts
        self._start(moment)
        if moment == "start":
            await asyncio.sleep(self._rng.random() * self.victim.start_s)
        elif await self._ready():
            await self._until(lambda: self.victim.dead or self.live.position >= target)
            enough = len(self.ledger.order) + self._rng.randint(FEWEST, 3 * FEWEST)
            await self._until(lambda: self.victim.dead or len(self.ledger.order) >= enough)
            if moment in POINTS and not await self.victim.ended():
                moment = "load"
        await self.victim.kill(moment)

    async def _until(self, condition: Callable[[], bool]) -> None:
        moved = self._moved()
        deadline = time.monotonic() + STUCK_S
        while not condition():
            if moved != self._moved():
                moved, deadline = self._moved(), time.monotonic() + STUCK_S
            if time.monotonic() > deadline:
                raise self.victim.stuck()
            await asyncio.sleep(0.02)

    def _moved(self) -> tuple[int, int]:
        return len(self.ledger.order), self.live.position

    # The whole ------------------------------------------------------------------------------

    async def run(self, on_kill: Callable[[], None] = lambda: None) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        try:
            bus = await NatsBus.connect(self._url, timeout_s=10)
            try:
                await created(bus, CLUSTER, FEED)
                for service in self._others:
                    service.start()
                for service in self._others:
                    await asyncio.to_thread(service.wait)
                async with self._written(bus):
                    for _ in range(self._wanted):
                        await self._round(self._rng.choice(MOMENTS))
                        on_kill()
                    self._start("")
                    await self._ready()
                    self.load.stop()
                async with asyncio.timeout(4 * STUCK_S):
                    await self._follow(bus, self.whole, self.ledger.last_commit_ts)
            finally:
                await bus.close()
        finally:
            self.seconds = time.monotonic() - began
            for service in (self.victim.service, *reversed(self._others)):
                service.kill()

    @contextlib.asynccontextmanager
    async def _written(self, bus: NatsBus) -> AsyncIterator[None]:
        """The load and its reader; at the end the load has ended and everything was read."""
        try:
            async with PumpClient(bus, CLUSTER, 0, RealClock(), RealRng()) as client:
                self.load = Load(bus, client, self.ledger, seed=self._seed, rate=self._rate)
                self.load.behind = lambda: len(self.ledger.order) - self.live.checked
                await self.load.prepare()
                async with asyncio.TaskGroup() as group:
                    reading = group.create_task(self._follow(bus, self.live, None))
                    loading = group.create_task(self.load.run())
                    yield
                    await loading
                    await client.flush(STUCK_S)
                    last = self.ledger.last_commit_ts
                    await self._until(lambda: self.live.position >= last)
                    reading.cancel()
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from group_error

    async def _follow(self, bus: NatsBus, reading: Reading, until: int | None) -> None:
        reader = await self._open(bus)
        try:
            while until is None or reading.position < until:
                reading.take(await reader.next_batch(500, 1.0))
        finally:
            await reader.close()

    async def _open(self, bus: NatsBus) -> StreamReader:
        while True:
            try:
                return await bus.read(changes_stream(FEED), start_seq=1)
            except (StreamMissing, Unavailable):
                await asyncio.sleep(0.1)

    def summary(self) -> str:
        moments = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        return (
            f"{self.kills.total()} kills ({moments}), {len(self.ledger.order)} transactions"
            f" ({self.load.large} of more than 1000 messages, {self.load.ddls} DDLs),"
            f" {self.whole.abandoned} cut between their parts,"
            f" {self.live.checked} read live and {self.whole.checked} from the start:"
            f" no gap; {self.seconds:.0f} s\n"
            + last_line("kills of the Drainer", self.kills.total(), f"seed {self._seed}")
        )


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], __doc__, Rig, Wrong))
