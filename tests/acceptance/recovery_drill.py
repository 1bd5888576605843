"""The upstream is lost whole: `python -m tests.acceptance.recovery_drill --kills 50`.

Real processes: nats-server, registry, two Pumps, Drainer, Applier, MariaDB. Transactions over
several tables, some larger than a message, and DDLs between them are written faster than the
Applier takes them in; in the middle of that everything but MariaDB is killed, in any order, the
Applier sometimes at a failpoint. Then the Applier alone brings MariaDB to a state of the source,
says which, and ends: row by row that is what was committed up to there. Then all start again on
what they had, once in a while without JetStream's store, and the stream goes on. At the end
everything is equal (T6).
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.integration.drainer.ledger import Ledger
from tests.integration.drainer.load import CLUSTER, Load
from tests.integration.drainer.tables import DownstreamTables
from tests.integration.kill_command import command
from tests.integration.pump_client.cluster import Service
from tests.last_line import last_line
from tests.processes import until
from tests.servers import NatsServer, free_port, mariadb_server
from tests.simulation.created import created
from tests.wrong import STUCK_S, Wrong
from tidelog.pump_client import PumpClient
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.real.rng import RealRng

FEED = "drill"
RATE = 2000
BURST = (150, 400)
"""Transactions before each loss."""
KINDS = {"small": 60, "several": 40, "fragments": 3, "ddl": 4}
POINTS = {
    "before commit": ("applier.lane.commit", 60),
    "after commit": ("applier.lane.committed", 60),
    "relay synced": ("applier.relay.after_sync", 20),
    "ddl recorded": ("applier.ddl.recorded", 4),
    "ddl run": ("applier.ddl.run", 4),
}
MOMENTS = ("load", "load", "load", *POINTS)
STORE_LOST = 0.1
"""How often JetStream's store does not come back."""


class Rig:
    def __init__(self, nats: NatsServer, directory: Path, *, kills: int, seed: int) -> None:
        self.kills: Counter[str] = Counter()
        self.recovery_s: list[float] = []
        self.replayed = 0
        """Drills whose relay held more than the checkpoint."""
        self.seconds = 0.0
        self.ledger = Ledger()
        self._rng = random.Random(seed)
        self._seed, self._wanted, self._nats = seed, kills, nats
        self._directory = directory
        self._tables: DownstreamTables
        self._load: Load
        common = ["--nats-url", nats.url]
        self._services = [Service("tidelog_registry", directory / "registry", common)]
        for node in ("pump-1", "pump-2"):
            flags = [*common, "--node-id", node, "--grpc-addr", "127.0.0.1:0"]
            self._services.append(Service("tidelog_pump", directory / node, flags))
        flags = [*common, "--feed", FEED, "--ddl-history", "embedded"]
        self._services.append(Service("tidelog_drainer", directory / "drainer", flags))
        self._applier = Service("tidelog_applier", directory / "applier", self._flags(nats.url))

    def _flags(self, nats_url: str) -> list[str]:
        return [
            *("--nats-url", nats_url, "--feed", FEED, "--txn-batch", "3"),
            *("--checkpoint-s", "0.5", "--relay-max-file-size", "200000"),
        ]

    # A drill --------------------------------------------------------------------------------

    async def _drill(self, client: PumpClient) -> None:
        moment = self._rng.choice(MOMENTS)
        self._start(moment)
        await self._burst(client)
        await self._lose_everything(moment)
        await asyncio.to_thread(self._recover)
        await asyncio.to_thread(self._come_back)

    def _start(self, moment: str) -> None:
        self._applier.env.pop("TIDELOG_FAILPOINTS", None)
        if moment in POINTS:
            name, most = POINTS[moment]
            self._applier.env["TIDELOG_FAILPOINTS"] = f"{name}=kill@{self._rng.randint(1, most)}"
        self._applier.start()

    async def _burst(self, client: PumpClient) -> None:
        """More than the Applier takes in meanwhile; all of it acked."""
        load, wanted = self._load, len(self.ledger.order) + self._rng.randint(*BURST)
        writing = asyncio.ensure_future(load.run())
        async with asyncio.timeout(STUCK_S):
            while len(self.ledger.order) < wanted and not writing.done():
                await load.progress.wait()
                load.progress.clear()
            load.stop()
            await writing
            await client.flush(STUCK_S)

    async def _lose_everything(self, moment: str) -> None:
        """Not before something of the burst is in the relay."""
        before = self._tables.checkpoint().commit_ts

        def moved() -> bool:
            return self._is_dead() or self._tables.checkpoint().commit_ts > before

        await asyncio.to_thread(until, moved, self._applier.log, STUCK_S)
        await asyncio.sleep(self._rng.random() * 0.3)
        self.kills[moment if self._is_dead() else "load"] += 1
        victims = [*self._services, self._applier]
        ends: list[Callable[[], None]] = [service.kill for service in victims]
        ends.append(self._nats.kill)
        self._rng.shuffle(ends)
        for end in ends:
            end()

    def _is_dead(self) -> bool:
        process = self._applier.process
        return process is None or process.poll() is not None

    def _recover(self) -> None:
        """The Applier alone. Raises Wrong."""
        before = self._tables.checkpoint()
        flags = self._flags(f"nats://127.0.0.1:{free_port()}")
        how = self._rng.choice((["--recover", "true"], ["--recover-after-s", "1"]))
        argv = [sys.executable, "-m", "tidelog_applier", "--data-dir", str(self._applier.directory)]
        began = time.monotonic()
        done = subprocess.run(
            [*argv, *flags, *how],
            env=self._environ(),
            capture_output=True,
            text=True,
            timeout=STUCK_S,
            check=False,
        )
        self.recovery_s.append(time.monotonic() - began)
        saved = self._tables.checkpoint()
        if done.returncode != 0 or not saved.consistent:
            raise Wrong(f"recovery ended with {done.returncode} at {saved}: {done.stderr[-3000:]}")
        if saved.commit_ts > before.commit_ts:
            self.replayed += 1
            if f'"commit_ts": {saved.commit_ts}' not in done.stderr:
                raise Wrong(f"it did not say {saved.commit_ts}: {done.stderr[-3000:]}")
        self._tables.compare(saved.commit_ts)

    def _environ(self) -> dict[str, str]:
        own = {k: v for k, v in self._applier.env.items() if k != "TIDELOG_FAILPOINTS"}
        return os.environ | own | {"TIDELOG_LOG_FORMAT": "json"}

    def _come_back(self) -> None:
        if self._rng.random() < STORE_LOST:
            shutil.rmtree(self._nats.store)
            self.kills["store lost"] += 1
        self._nats.start()
        for service in self._services:
            service.start()
        for service in self._services:
            service.wait()

    # The whole ------------------------------------------------------------------------------

    async def run(self, on_kill: Callable[[], None] = lambda: None) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        with mariadb_server(self._directory) as database:
            self._tables = DownstreamTables(database, self.ledger)
            self._applier.env["TIDELOG_APPLIER_DOWNSTREAM"] = self._tables.url
            self._tables.create()
            bus = await NatsBus.connect(self._nats.url, timeout_s=10)
            try:
                await created(bus, CLUSTER, FEED)
                for service in self._services:
                    service.start()
                for service in self._services:
                    await asyncio.to_thread(service.wait)
                async with PumpClient(bus, CLUSTER, 0, RealClock(), RealRng()) as client:
                    self._load = Load(
                        bus, client, self.ledger, seed=self._seed, rate=RATE, kinds=KINDS
                    )
                    await self._load.prepare()
                    for _ in range(self._wanted):
                        await self._drill(client)
                        on_kill()
                    await asyncio.to_thread(self._to_the_end)
            finally:
                await bus.close()
                for service in (self._applier, *reversed(self._services)):
                    service.kill()
                self.seconds = time.monotonic() - began

    def _to_the_end(self) -> None:
        self._start("")
        last = self.ledger.last_commit_ts
        until(lambda: self._tables.checkpoint().commit_ts >= last, self._applier.log, STUCK_S)
        self._tables.compare(last)

    def summary(self) -> str:
        moments = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        took = sorted(self.recovery_s)
        return (
            f"{len(took)} losses of the whole upstream ({moments}), {len(self.ledger.order)}"
            f" transactions, {self._load.ddls} DDLs; {self.replayed} times the relay had more than"
            f" the checkpoint; each time equal at the commit_ts that was said, and at the end;"
            f" recovery, start included: p50 {took[len(took) // 2]:.1f} s, at most"
            f" {took[-1]:.1f} s; {self.seconds:.0f} s\n"
            + last_line("recovery drill", len(took), f"seed {self._seed}")
        )


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], __doc__, Rig))
