"""kill -9 of a Pump under load: `python -m tests.integration.pump.kill_rig --kills 30`.

A real process on the real disk, a real nats-server and registry, the PumpClient; clients that leave
their transactions, whom the rig answers for. It is killed at random: under load, while it starts,
or by a failpoint between two steps of a write, of a rotation, of a purge. Each time everything that
was committed is read, in order, once, byte for byte, and nothing else; a reader goes on where it
was, so that a check costs what was written since. At the end all that is stored is read once more.
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

import msgspec

from tests.integration.kill_command import command
from tests.integration.pump.kill_ledger import Ledger, Reading
from tests.integration.pump.kill_load import Load, answer_for
from tests.integration.pump.kill_reader import Reader
from tests.integration.pump_client.cluster import Service
from tests.integration.victim import STUCK_S, Victim, Wrong
from tests.last_line import last_line
from tests.servers import NatsServer
from tidelog.actor import first_error
from tidelog.oracle import RegistryOracle
from tidelog.pump_client import PumpClient
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng
from tidelog.subjects import pump

CLUSTER, NODE = "default", "pump-1"
RATE = 400
BUS_LIMIT = 1 << 20
FEWEST = 100
"""Transactions between a start and a kill under load, at least; a quiet run proves nothing."""
TRY_S = 1.0
"""What waits for an answer of a Pump that was killed tries again after this."""
POINTS = {
    "before write": ("pump.segments.before_append", 60),
    "after sync": ("pump.segments.after_sync", 60),
    "before ack": ("pump.writer.before_ack", 60),
    "index": ("pump.indexer.before_write", 60),
    "rotate": ("pump.segments.between_rotation", 3),
    "gc": ("pump.gc.before_removal", 2),
}
"""The failpoint, and at which of its first passages it kills, at the latest."""
MOMENTS = ("load", "start", *POINTS)


class Rig:
    def __init__(self, nats: NatsServer, directory: Path, *, kills: int, seed: int) -> None:
        self.ledger = Ledger()
        self._rng = random.Random(seed)
        self._seed = seed
        self._wanted = kills
        self._url = nats.url
        common = ["--nats-url", nats.url]
        self.registry = Service("tidelog_registry", directory / "registry", common)
        pump_flags = [
            *(*common, "--node-id", NODE, "--grpc-addr", "127.0.0.1:0"),
            *("--segment-bytes", str(1 << 20), "--gc", f"{max(4, kills // 4)}s"),
            *("--gc-interval", "300ms", "--gc-hard-cap", "1d"),
            *("--resolve-after-s", "0.2", "--txn-timeout-s", "1"),
            *("--storage-stop-write-at-available-space", "1 MiB"),
        ]
        service = Service("tidelog_pump", directory / NODE, pump_flags)
        self.victim = Victim(service, POINTS, self._rng)
        self._life = 0
        self.checked = 0
        self.seconds = self.up_s = 0.0

    @property
    def kills(self) -> Counter[str]:
        return self.victim.kills

    # The Pump's life ------------------------------------------------------------------------

    def _start(self, moment: str) -> None:
        self._life += 1
        self.victim.start(moment)

    async def _round(self, moment: str, load: Load, reader: Reader) -> None:
        target = self.ledger.last_commit_ts
        self._start(moment)
        if moment == "start":
            await asyncio.sleep(self._rng.random() * self.victim.start_s)
        elif await self.victim.ready():
            began = time.monotonic()
            await self._until(lambda: self.victim.dead or reader.reading.position >= target, reader)
            enough = self.ledger.acked + self._rng.randint(FEWEST, 4 * FEWEST)
            await self._until(lambda: self.victim.dead or self.ledger.acked >= enough, load)
            if moment in POINTS and not await self.victim.ended():
                moment = "load"
            self.up_s += time.monotonic() - began
        await self.victim.kill(moment)
        if self.ledger.strangers:
            raise Wrong(f"the Pump asks about what nobody wrote: {self.ledger.strangers}")

    async def _until(self, condition: Callable[[], bool], who: Load | Reader) -> None:
        """`who` tells when there is something new; a process that ended tells nobody."""
        deadline = time.monotonic() + STUCK_S
        while not condition():
            if time.monotonic() > deadline:
                raise self.victim.stuck()
            who.progress.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await who.progress.wait()

    # The whole ------------------------------------------------------------------------------

    async def run(self, on_kill: Callable[[], None] = lambda: None) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        try:
            self.registry.start()
            await asyncio.to_thread(self.registry.wait)
            bus = await NatsBus.connect(self._url, timeout_s=10)
            try:
                async with self._written(bus) as (load, reader):
                    for _ in range(self._wanted):
                        await self._round(self._rng.choice(MOMENTS), load, reader)
                        on_kill()
                    self._start("")
                    await self.victim.ready()
                    load.stop()
                await self._whole(bus)
            finally:
                await bus.close()
        finally:
            self.seconds = time.monotonic() - began
            self.victim.service.kill()
            self.registry.kill()

    @contextlib.asynccontextmanager
    async def _written(self, bus: NatsBus) -> AsyncIterator[tuple[Load, Reader]]:
        """The load and its reader; at the end the load has ended and everything was read."""
        clock, oracle = RealClock(), RegistryOracle(bus, CLUSTER)
        await answer_for(bus, CLUSTER, self.ledger)
        reader = self._reader(bus, "rig", 0)
        self.ledger.readings.append(reader.reading)
        try:
            async with PumpClient(bus, CLUSTER, 0, clock, RealRng(), try_timeout_s=TRY_S) as client:
                load = Load(client, oracle, clock, self.ledger, self._seed, RATE)
                async with asyncio.TaskGroup() as group:
                    reading = group.create_task(reader.run())
                    keeping = group.create_task(reader.register())
                    loading = group.create_task(load.run())
                    yield load, reader
                    await loading
                    await client.flush(STUCK_S)
                    last = self.ledger.last_commit_ts
                    await self._until(lambda: reader.reading.position >= last, reader)
                    reading.cancel()
                    keeping.cancel()
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from group_error
        self.checked = reader.reading.read

    def _reader(self, bus: NatsBus, feed: str, after_ts: int) -> Reader:
        clock, oracle = RealClock(), RegistryOracle(bus, CLUSTER)
        reading = Reading(self.ledger, after_ts)
        return Reader(bus, clock, oracle, CLUSTER, NODE, feed, reading, lambda: self._life)

    async def _whole(self, bus: NatsBus) -> None:
        """All that is stored once more; nothing is open any more."""
        body = msgspec.json.encode({"verb": "gc"})
        answer = await bus.request(pump(CLUSTER, NODE, "control"), body, timeout_s=30)
        purge_ts = msgspec.json.decode(answer.data, type=dict[str, object])["purge_ts"]
        assert isinstance(purge_ts, int)
        whole = self._reader(bus, "whole", purge_ts)
        async with asyncio.timeout(4 * STUCK_S):
            while whole.reading.position < self.ledger.last_commit_ts:
                await whole.step()
        self.checked += whole.reading.read
        await self._until(self._closes, whole)

    def _closes(self) -> bool:
        """Is nothing open any more of what clients left?"""
        return bool(self.victim.status()["sorter"]["open"] == 0)

    @property
    def large(self) -> int:
        """Acked, and too large for the bus: they came by gRPC."""
        return sum(e.acked and e.size > BUS_LIMIT for e in self.ledger.entries.values())

    def summary(self) -> str:
        moments = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        transactions = len(self.ledger.entries)
        return (
            f"{self.kills.total()} kills ({moments}), {transactions} transactions"
            f" ({self.large} above the bus limit),"
            f" {self.ledger.acked} acked, {self.checked} checked;"
            f" {self.seconds:.0f} s, {transactions / self.seconds:.0f}/s"
            f" (while it served {transactions / max(self.up_s, 0.1):.0f}/s)\n"
            + last_line("kills of the Pump", self.kills.total(), f"seed {self._seed}")
        )


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], __doc__, Rig, Wrong))
