"""Two Drainers of a feed: `python -m tests.integration.drainer.takeover_rig --takeovers 20`.

Real processes: nats-server, registry, two Pumps, two Drainers. Under load the leader is killed
(SIGKILL), frozen (SIGSTOP) and woken once the other one leads, or stopped in order (SIGTERM). A
plain reader follows the stream all the while; at the end another one reads all of it from the
start. Both must see each transaction once, in order, gapless (I5), row for row as it was written;
and the old leader stands by again. Printed: how long it takes until what was committed afterwards
can be read.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from tests.integration.drainer.ledger import Ledger, Reading
from tests.integration.drainer.load import CLUSTER, Load
from tests.integration.pump_client.cluster import Service
from tests.kills.chain import opened
from tests.last_line import last_line
from tests.servers import NatsServer, nats_server
from tests.simulation.created import created
from tests.wrong import STUCK_S, Wrong
from tidelog.actor import first_error
from tidelog.logs import configure
from tidelog.pump_client import PumpClient
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng

FEED = "rig"
HOWS = {"kill -9": signal.SIGKILL, "freeze": signal.SIGSTOP, "stop": signal.SIGTERM}
AIM_S = 5.0
RATE = 15
"""Transactions a second: with a reader in this process, that a slow machine keeps up with, so that
no backlog of ours is taken for the Drainers'."""
FEWEST = 12
"""Transactions between two takeovers, at least; a quiet run proves nothing."""


class Rig:
    """By how the leader went, seconds until the other one publishes (`led`), and until what was
    committed afterwards was read (`read`): the backlog is between the two."""

    def __init__(self, nats: NatsServer, directory: Path, *, takeovers: int, seed: int) -> None:
        self.ledger = Ledger()
        self.live, self.whole = Reading(self.ledger, FEED), Reading(self.ledger, FEED)
        self.load: Load
        self.hows: Counter[str] = Counter()
        self.led: dict[str, list[float]] = {how: [] for how in HOWS}
        self.read: dict[str, list[float]] = {how: [] for how in HOWS}
        self.seconds = 0.0
        self._rng = random.Random(seed)
        self._seed, self._wanted, self._url = seed, takeovers, nats.url
        common = ["--nats-url", nats.url]
        self._services = [Service("tidelog_registry", directory / "registry", common)]
        for node in ("pump-1", "pump-2"):
            flags = [*common, "--node-id", node, "--grpc-addr", "127.0.0.1:0"]
            self._services.append(Service("tidelog_pump", directory / node, flags))
        flags = [*common, "--feed", FEED, "--ddl-history", "embedded", "--node-id"]
        self._pair = [
            Service("tidelog_drainer", directory / node, [*flags, node]) for node in ("d1", "d2")
        ]
        self._services += self._pair

    # A takeover -----------------------------------------------------------------------------

    async def _takeover(self, how: str) -> None:
        leader = await self._leader()
        standby = next(one for one in self._pair if one is not leader)
        await self._until(lambda: bool(self._said(standby).get("standby")))
        enough = len(self.ledger.order) + self._rng.randint(FEWEST, 3 * FEWEST)
        await self._until(lambda: len(self.ledger.order) >= enough)
        began, target = time.monotonic(), self.ledger.last_commit_ts
        process = leader.process
        assert process is not None
        os.kill(process.pid, HOWS[how])
        if how != "freeze":
            await asyncio.to_thread(process.wait)
            leader.process = None
        await self._until(lambda: bool(self._said(standby).get("leads")) and standby.ready())
        self.led[how].append(time.monotonic() - began)
        await self._until(lambda: self.live.position > target)
        self.read[how].append(time.monotonic() - began)
        if how == "freeze":
            os.kill(process.pid, signal.SIGCONT)
        else:
            leader.start()
        await self._until(lambda: bool(self._said(leader).get("standby")))
        self.hows[how] += 1

    async def _leader(self) -> Service:
        found: list[Service] = []

        def known() -> bool:
            found[:] = [one for one in self._pair if self._said(one).get("leads")]
            return len(found) == 1

        await self._until(known)
        return found[0]

    def _said(self, service: Service) -> dict[str, Any]:
        """What its lease says; nothing while it starts."""
        if service.process is None or service.process.poll() is not None:
            raise Wrong(f"{service.directory.name} ended by itself:\n{service.log()}")
        try:
            address = (service.directory / "http").read_text().strip()
            with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
                found: dict[str, Any] = json.load(answer)["actors"].get("lease", {})
                return found
        except OSError:
            return {}

    async def _until(self, condition: Callable[[], bool]) -> None:
        moved = self._moved()
        deadline = time.monotonic() + STUCK_S
        while not condition():
            if moved != self._moved():
                moved, deadline = self._moved(), time.monotonic() + STUCK_S
            if time.monotonic() > deadline:
                said = "\n".join(f"{one.directory.name}: {self._said(one)}" for one in self._pair)
                raise Wrong(f"nothing moves for {STUCK_S} s:\n{said}")
            await asyncio.sleep(0.02)  # between two looks at other processes

    def _moved(self) -> tuple[int, int]:
        return len(self.ledger.order), self.live.position

    # The whole ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        try:
            bus = await NatsBus.connect(self._url, timeout_s=10)
            try:
                await created(bus, CLUSTER, FEED)
                for service in self._services:
                    service.start()
                for service in self._services[: -len(self._pair)]:
                    await asyncio.to_thread(service.wait)
                async with self._written(bus):
                    for number in range(self._wanted):
                        await self._takeover(list(HOWS)[number % len(HOWS)])
                    self.load.stop()
                async with asyncio.timeout(4 * STUCK_S):
                    await self._follow(bus, self.whole, self.ledger.last_commit_ts)
            finally:
                await bus.close()
        finally:
            self.seconds = time.monotonic() - began
            for service in reversed(self._services):
                service.kill()

    @contextlib.asynccontextmanager
    async def _written(self, bus: NatsBus) -> AsyncIterator[None]:
        """The load and its reader; at the end the load has ended and everything was read."""
        try:
            async with PumpClient(bus, CLUSTER, 0, RealClock(), RealRng()) as client:
                self.load = Load(bus, client, self.ledger, seed=self._seed, rate=RATE)
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
        reader = await opened(bus, FEED)
        try:
            while until is None or reading.position < until:
                reading.take(await reader.next_batch(500, 1.0))
        finally:
            await reader.close()

    def slowest(self) -> float:
        return max(max(times, default=0.0) for times in self.led.values())

    def summary(self) -> str:
        return (
            f"taken over after {_shown(self.led)}\nread after {_shown(self.read)}\n"
            f"{len(self.ledger.order)} transactions ({self.load.large} of more than 1000 messages,"
            f" {self.load.ddls} DDLs), {self.whole.chain.abandoned} cut between their parts,"
            f" {self.live.checked} read live and {self.whole.checked} from the start: no gap;"
            f" {self.seconds:.0f} s; the slowest takeover took {self.slowest():.1f} s, the aim is"
            f" {AIM_S:.0f} s\n"
            + last_line("takeovers of Drainers", self.hows.total(), f"seed {self._seed}")
        )


def _shown(times: dict[str, list[float]]) -> str:
    return "; ".join(
        f"{how}: p50 {statistics.median(t):.1f}, most {max(t):.1f} s of {len(t)}"
        for how, t in times.items()
        if t
    )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--takeovers", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    configure("auto", "error")
    with (
        tempfile.TemporaryDirectory(prefix="takeover-rig-") as directory,
        nats_server(Path(directory)) as nats,
    ):
        rig = Rig(nats, Path(directory), takeovers=options.takeovers, seed=options.seed)
        try:
            asyncio.run(rig.run())
        except Wrong as error:
            print(f"takeover {rig.hows.total()} of seed {options.seed}: {error}")
            return 1
    print(rig.summary())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
