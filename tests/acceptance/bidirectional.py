"""Two clusters that replicate into each other, each with users of its own, while Appliers and
Drainers are killed (SIGKILL): `python -m tests.acceptance.bidirectional --minutes 10`.

What is written into a MariaDB, by its users or by the other cluster's Applier, gets to the Pumps of
its own cluster through a bridge, as a TiDB's binlogs would. Each cluster's stream must hold the
transactions of its own users, and nothing else: no echo. At the end both sides are equal. DDLs go
one way, and columns come and go under the rows of both sides (sync-mode 2).
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

import tidelog
from tests.acceptance.stream import markers_of
from tests.acceptance.upstream.binlog import OPTIONS
from tests.acceptance.upstream.bridge import Bridge
from tests.acceptance.upstream.contents import ask, cursor, differences
from tests.acceptance.upstream.users import TABLES, Users
from tests.last_line import last_line
from tests.processes import until
from tests.servers import MariaDb, mariadb_server
from tests.topology import Running, up

CHANNEL = 7
VICTIMS = ("applier", "drainer")
AT_ONCE = 20
"""Transactions of users before the bridge reads on."""
LEAST = 100
"""So many of each side's users; fewer prove nothing."""
DRAIN_S = 120.0
CHECKED = "SELECT id FROM app.item WHERE only_b <> IF(id & 1, n, 7)"


class Side:
    """A cluster: a MariaDB that its users and the other side's Applier write to, a bridge, and all
    of Tidelog but for the downstream, which is the other side's MariaDB."""

    def __init__(self, number: int, db: MariaDb, running: Running) -> None:
        self.users = Users(number, db)
        self.db = db
        self.running = running
        self.bridge: Bridge
        self.ddls = 0

    def ddl(self, text: str) -> None:
        """By an operator, while users write."""
        with cursor(self.db) as at:
            at.execute(text)
        self.ddls += 1

    async def sent(self) -> None:
        """The other side has all that the bridge handed over."""
        wanted = self.bridge.last

        def has_it() -> bool:
            try:
                return int(self.running.said("applier")["applied_ts"]) >= wanted
            except OSError:  # it was killed a moment ago
                return False

        await asyncio.to_thread(until, has_it, f"{wanted} to be applied", DRAIN_S)

    async def published(self) -> int:
        """Transactions in the stream."""
        return len(await markers_of(self.running.nats, "main"))


@contextmanager
def clusters(directory: Path) -> Iterator[list[Side]]:
    """A, on which DDLs are run, and B."""
    with ExitStack() as life:
        dbs = [life.enter_context(mariadb_server(directory / name, *OPTIONS)) for name in "ab"]
        sides = []
        for number, (db, other) in enumerate((dbs, dbs[::-1])):
            environment = {
                "TIDELOG_DRAINER_SYNC_DDL": "true" if number == 0 else "false",
                "TIDELOG_APPLIER_SYNC_MODE": "2",
            }
            for service in ("DRAINER", "APPLIER"):
                environment[f"TIDELOG_{service}_LOOPBACK_CONTROL"] = "true"
                environment[f"TIDELOG_{service}_CHANNEL_ID"] = str(CHANNEL)
            url = f"mysql://{other.user}@{other.host}:{other.port}/"
            top = up(directory / f"cluster-{'ab'[number]}", url, environment=environment)
            sides.append(Side(number, db, life.enter_context(top)))
        yield sides


class Rig:
    def __init__(self, sides: list[Side], seed: int) -> None:
        self.sides = sides
        self.kills: Counter[str] = Counter()
        self._random = random.Random(seed)

    async def run(self, seconds: float, kills: int, state: Path) -> None:
        async with AsyncExitStack() as life:
            for number, side in enumerate(self.sides):
                url = side.running.nats
                writer = tidelog.connect(url, state_dir=state / str(number))
                side.bridge = Bridge(side.db, await life.enter_async_context(writer))
            await self._prepare()
            await self._live(seconds, kills)
            await self._check()

    async def _prepare(self) -> None:
        """The tables come from A. B has a column that A does not know of."""
        a, b = self.sides
        for text in ("create database app", *TABLES):
            a.ddl(text)
        await self._settle()
        b.ddl("alter table app.item add column only_b int default 7")
        b.ddls = 0  # none of B's is published

    async def _live(self, seconds: float, kills: int) -> None:
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write(end))
            group.create_task(self._kill(kills, seconds / (kills + 1)))
            group.create_task(self._change_columns(seconds))

    async def _write(self, end: float) -> None:
        """Users write, the bridges follow: side by side, so that neither runs away. Where that is
        slow it goes on until what was written proves something."""
        while time.monotonic() < end or any(s.users.committed <= LEAST for s in self.sides):
            writes = (asyncio.to_thread(side.users.write, AT_ONCE) for side in self.sides)
            await asyncio.gather(*writes)
            await asyncio.gather(*(side.bridge.catch_up() for side in self.sides))

    async def _kill(self, count: int, every_s: float) -> None:
        for _ in range(count):
            await asyncio.sleep(every_s)
            side, victim = self._random.choice(self.sides), self._random.choice(VICTIMS)
            await asyncio.to_thread(side.running.kill, victim)
            self.kills[victim] += 1

    async def _change_columns(self, seconds: float) -> None:
        """On A, while both sides' rows are on their way."""
        a = self.sides[0]
        for _ in range(2):
            await asyncio.sleep(seconds / 6)
            a.ddl("alter table app.item add column extra int default 5")
            await asyncio.sleep(seconds / 6)
            a.ddl("alter table app.item drop column extra")

    async def _settle(self) -> None:
        """Until nothing is on its way, there or back."""
        for _ in range(2):
            for side, other in (self.sides, self.sides[::-1]):
                await side.bridge.catch_up()
                await side.sent()
                await other.bridge.catch_up()

    async def _check(self) -> None:
        a, b = self.sides
        await self._settle()
        for side in self.sides:
            wanted, found = side.users.committed + side.ddls, await side.published()
            assert found == wanted, f"{side.users.name}: {found} in the stream, {wanted} written"
            assert side.bridge.commits > side.users.committed
        commits = [side.bridge.commits for side in self.sides]
        await self._settle()
        assert [side.bridge.commits for side in self.sides] == commits, "something still goes round"
        assert ask(b.db, CHECKED) == []
        b.ddl("alter table app.item drop column only_b")
        unequal = differences(a.db, b.db, "app")
        assert not unequal, "\n".join(unequal)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="bidirectional-") as name:
        directory = Path(name)
        with clusters(directory) as sides:
            rig = Rig(sides, chosen.seed)
            asyncio.run(rig.run(chosen.minutes * 60, chosen.kills, directory / "state"))
    print(report(rig))
    return 0


def report(rig: Rig) -> str:
    a, b = rig.sides
    written = " and ".join(f"{side.users.committed} on {side.users.name}" for side in (a, b))
    back = a.bridge.commits + b.bridge.commits - a.users.committed - b.users.committed
    return (
        f"{written} by users, each once in its own stream; {back} by Appliers, in none;"
        f" {a.ddls} DDLs one way; killed: {dict(rig.kills)}; both sides equal\n"
        + last_line("bidirectional", a.users.committed + b.users.committed, "transactions of users")
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
