"""kill -9 of an Applier, and of the MariaDB it writes into:
`python -m tests.integration.applier.kill_rig --kills 100 --database-kills 20`.

Real processes: nats-server, MariaDB, the Applier. A load of hard tables is published all the while.
The Applier is killed at random under load, while it starts, and at failpoints; between two starts
its mode and its number of workers change. After each kill one snapshot of the downstream is held
against the history: nothing at or below the checkpoint is missing, nothing is there twice, no row
is in a state that it never had since, and where the checkpoint says that it is consistent, the
tables are exactly what they were there. The position never goes back. At the end all is equal.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pymysql

from tests.integration.applier.kill_history import Row, check_all
from tests.integration.applier.kill_load import DB, Load
from tests.integration.applier.victim import Victim
from tests.integration.kill_command import command
from tests.integration.pump_client.cluster import Service
from tests.last_line import last_line
from tests.servers import MariaDb, NatsServer, mariadb_server
from tests.unit.applier.publisher import FEED
from tests.wrong import STUCK_S, Wrong
from tidelog.actor import first_error
from tidelog.downstream import Checkpoint
from tidelog.real.bus import NatsBus

RATE = 150
FEWEST = 40
"""Transactions that the checkpoint passes between a start and a kill under load, at least."""
POINTS = {
    "before commit": ("applier.lane.commit", 60),
    "after commit": ("applier.lane.committed", 60),
    "relay synced": ("applier.relay.after_sync", 60),
    "ddl recorded": ("applier.ddl.recorded", 2),
    "ddl run": ("applier.ddl.run", 2),
}
"""The failpoint, and at which of its first passages it kills, at the latest."""
LARGE = "large"
DATABASE = "database"
LOCKED, LOCKED_S = "a lane waited", 1.5
"""Somebody else's lock holds up some lanes for so long: longer than a checkpoint takes to come."""
MOMENTS = ("load", "load", "start", *POINTS, LARGE, LOCKED, LOCKED)
MODES = ("parallel", "atomic")
WORKERS = (1, 2, 4, 7)


class Rig:
    def __init__(
        self,
        nats: NatsServer,
        directory: Path,
        *,
        kills: int,
        seed: int,
        database_kills: int = 0,
        outages: int = 0,
    ) -> None:
        self._wanted_outages = outages
        self.seconds = 0.0
        self.checkpoint = Checkpoint(0)
        self.checked: Counter[str] = Counter()
        """Snapshots held against the history: exactly, or loosely."""
        self.outages_s: list[float] = []
        """From the database's death, one of `kills`, until the Applier had caught up."""
        self.load: Load
        self._rng = random.Random(seed)
        self._seed, self._directory, self._url = seed, directory, nats.url
        rounds = [self._rng.choice(MOMENTS) for _ in range(kills)] + [DATABASE] * database_kills
        self._rng.shuffle(rounds)
        self._rounds = rounds
        self._database: MariaDb
        self._flags = ["--nats-url", nats.url, "--feed", FEED]
        self.victim = Victim(
            Service("tidelog_applier", directory / "applier", self._flags), POINTS, self._rng
        )

    @property
    def kills(self) -> Counter[str]:
        return self.victim.kills

    # The Applier's life ---------------------------------------------------------------------

    def _start(self, moment: str) -> None:
        mode, workers = self._rng.choice(MODES), self._rng.choice(WORKERS)
        flags = {"--mode": mode, "--worker-count": str(workers), "--checkpoint-s": "0.5"}
        both = [word for flag in flags.items() for word in flag]
        self.victim.service.flags = [*self._flags, *both]
        self.victim.start(moment)

    async def _round(self, moment: str) -> None:
        if moment == LARGE:
            self.load.write_large()
        self._start(moment)
        if moment == "start":
            await asyncio.sleep(self._rng.random() * self.victim.start_s)
        elif await self.victim.ready():
            await self._moves(self._rng.randint(FEWEST, 3 * FEWEST))
            if moment in POINTS and not await self.victim.ended():
                moment = "load"
            if moment == DATABASE:
                await self._kill_database()
                moment = "after the database"
            if moment == LOCKED:
                with self._locked():
                    await asyncio.sleep(LOCKED_S)
                    await self.victim.kill(moment)
        if self.victim.service.process is not None:
            await self.victim.kill(moment)
        self._check()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Some rows of a table that the load changes all the time."""
        with self._connected() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("BEGIN")
            cursor.execute(f"SELECT id FROM {DB}.plain WHERE id % 5 = 0 FOR UPDATE")
            yield

    async def _kill_database(self) -> None:
        """The Applier outlives it, and comes as far as the load is now."""
        self._database.kill()
        await asyncio.sleep(self._rng.random())
        self._database.start()
        self.kills[DATABASE] += 1
        self._check()
        await self._moves(self.load.commit_ts - self.checkpoint.commit_ts)

    async def _outages(self, count: int) -> None:
        """One Applier lives through all of them, and each time its lag is gone again (T15)."""
        self._start("")
        await self.victim.ready()
        for _ in range(count):
            await self._moves(FEWEST)
            began = time.monotonic()
            await self._kill_database()
            self.outages_s.append(time.monotonic() - began)
        if count:
            if self.victim.dead:
                raise Wrong(
                    f"the Applier did not outlive its database: {self.victim.service.log()}"
                )
            await self.victim.kill("after the outages")
            self._check()

    async def _moves(self, transactions: int) -> None:
        """Until the checkpoint has passed so many more, or the Applier is dead."""
        target = self.checkpoint.commit_ts + transactions
        moved, deadline = self.checkpoint.commit_ts, time.monotonic() + STUCK_S
        while not self.victim.dead and self.checkpoint.commit_ts < target:
            await asyncio.sleep(0.05)
            await asyncio.to_thread(self._look)
            if self.checkpoint.commit_ts > moved:
                moved, deadline = self.checkpoint.commit_ts, time.monotonic() + STUCK_S
            if time.monotonic() > deadline:
                raise self.victim.stuck()

    # What is downstream ---------------------------------------------------------------------

    def _look(self) -> None:
        """The position. Raises Wrong if it went back."""
        with self._snapshot() as cursor:
            self._position(cursor)

    def _check(self) -> None:
        """One snapshot of everything. Raises Wrong."""
        while True:
            defined = self._definition()
            with self._snapshot() as cursor:
                self._position(cursor)
                tables: dict[str, list[Row]] = {}
                for name in self.load.tables:
                    with contextlib.suppress(pymysql.err.ProgrammingError):  # not created yet
                        cursor.execute(f"SELECT * FROM {DB}.{name}")
                        tables[name] = list(cursor.fetchall())
            if self._definition() == defined:
                break  # else a living Applier's DDL came in between: no snapshot keeps it off
        exactly = self.checkpoint.consistent and self.checkpoint.ddl_pending is None
        self.checked["exactly" if exactly else "loosely"] += 1
        check_all(self.load.histories, tables, self.checkpoint.commit_ts, exactly=exactly)

    def _definition(self) -> str:
        """Of the table that DDLs change; "" if it is not there."""
        with self._connected() as cursor:
            try:
                cursor.execute(f"SHOW CREATE TABLE {DB}.own")
            except pymysql.err.ProgrammingError:
                return ""
            return str(cursor.fetchone())

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[Any]:
        with self._connected() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            yield cursor

    @contextlib.contextmanager
    def _connected(self) -> Iterator[Any]:
        server = self._database
        connection = pymysql.connect(host=server.host, port=server.port, user=server.user)
        with contextlib.closing(connection), connection.cursor() as cursor:
            yield cursor

    def _position(self, cursor: Any) -> None:
        try:
            cursor.execute("SELECT checkPoint FROM tidb_binlog.checkpoint")
        except pymysql.err.ProgrammingError:
            return
        for (text,) in cursor.fetchall():
            found = msgspec.json.decode(text, type=Checkpoint)
            if found.commit_ts < self.checkpoint.commit_ts:
                raise Wrong(f"the checkpoint went from {self.checkpoint} back to {found}")
            self.checkpoint = found

    # The whole ------------------------------------------------------------------------------

    async def run(self, on_kill: Callable[[], None] = lambda: None) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        with mariadb_server(self._directory) as self._database:
            self.victim.service.env["TIDELOG_APPLIER_DOWNSTREAM"] = (
                f"mysql://root@{self._database.host}:{self._database.port}/"
            )
            bus = await NatsBus.connect(self._url, timeout_s=10)
            try:
                async with self._published(bus):
                    for moment in self._rounds:
                        await self._round(moment)
                        on_kill()
                    await self._outages(self._wanted_outages)
                await self._to_the_end()
            finally:
                await bus.close()
                self.victim.service.kill()
                self.seconds = time.monotonic() - began

    @contextlib.asynccontextmanager
    async def _published(self, bus: NatsBus) -> AsyncIterator[None]:
        self.load = Load(bus, seed=self._seed, rate=RATE)
        self.load.behind = lambda: self.load.commit_ts - self.checkpoint.commit_ts
        await self.load.prepare()
        try:
            async with asyncio.TaskGroup() as group:
                loading = group.create_task(self.load.run())
                yield
                self.load.stop()
                await loading
        except BaseExceptionGroup as group_error:
            raise first_error(group_error) from group_error

    async def _to_the_end(self) -> None:
        """An Applier that is through stops in order: a consistent checkpoint, and equality."""
        self._start("")
        await self.victim.ready()
        await self._moves(self.load.commit_ts - self.checkpoint.commit_ts)
        process = self.victim.service.process
        assert process is not None
        process.terminate()
        status = await asyncio.to_thread(process.wait, STUCK_S)
        if status != 0:
            raise Wrong(f"it ended with {status}: {self.victim.service.log()}")
        self._check()
        if not self.checkpoint.consistent:
            raise Wrong(f"a clean stop left {self.checkpoint}")

    def summary(self) -> str:
        moments = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        rows = sum(history.settled.total() for history in self.load.histories)
        return (
            f"{self.kills.total()} kills ({moments}), {self.load.transactions} transactions"
            f" ({self.load.large} large, {self.load.ddls} DDLs); {rows} rows equal at the end, the"
            f" tables held against the history {self.checked['exactly']} times exactly and"
            f" {self.checked['loosely']} times by their rows' states; {self._outages_said()}"
            f"{self.seconds:.0f} s\n"
            + last_line("kills of the Applier", self.kills.total(), f"seed {self._seed}")
        )

    def _outages_said(self) -> str:
        if not self.outages_s:
            return ""
        took = sorted(self.outages_s)
        return (
            f"{len(took)} outages of the database in one life, the lag gone after"
            f" {took[len(took) // 2]:.1f} s (p50), {took[-1]:.1f} s at most; "
        )


if __name__ == "__main__":
    sys.exit(command(sys.argv[1:], __doc__, Rig, {"database_kills": 20, "outages": 10}))
