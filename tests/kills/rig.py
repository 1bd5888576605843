"""kill -9 of every process (reliability R4): `python -m tests.kills.rig --kills 200 --seed 1`.

registry, three Pumps, two Drainers, Applier, nats-server, mariadbd and the writer, under a load of
at least LEAST_RATE transactions a second, whose ledger is fsynced before an ack counts. A victim,
now and then two, dies at a random moment: under load, at a failpoint, or again while it recovers.
A cycle ends when everybody is up, and what was acked by then is in the stream and below the
Applier's checkpoint. Some transactions are larger than a message and a batch, and some have rows of
a schema whose DDL has no place in the stream yet. All the while an application reads the stream:
each transaction once, in order, as it was written; and a plain reader sees that its chain has no
gap (I5). At the end MariaDB holds exactly what the stream says.

`--points ACTIONS` fires those failpoints in this town that no simulated history passes.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.kills.chain import Chain
from tests.kills.judge import Judge
from tests.kills.points import ELSEWHERE, discovered, needs_a_process
from tests.kills.simulated import ACTIONS
from tests.kills.town import FEED, Town, Victim
from tests.last_line import last_line
from tests.servers import mariadb_server, nats_server
from tests.simulation.created import created
from tests.wrong import Wrong
from tidelog import failpoints
from tidelog.actor import first_error
from tidelog.logs import configure
from tidelog.ports import Bus
from tidelog.real.bus import NatsBus

RATE = 400
LEAST_RATE = 200
"""Transactions a second while all are up, at least: a quiet run proves nothing. (What an outage
holds up is made up for.)"""
MANY = 200
"""So many cycles must have met everything."""
FEWEST = 100
"""Transactions between two cycles, at least."""
STUCK_S = 90.0
FIRES_S = 30.0
RETRIES = "client.finisher."
"""Begins the names of points that are passed only where a Pump didn't answer."""
TWO, AGAIN, AT_A_POINT = 0.15, 0.3, 0.3
"""How often two die at once, one dies again while it recovers, or dies at a failpoint."""
PASSAGES, SOON = 8, 3
"""A kill at a failpoint comes at one of so many passages, and within POINT_S."""
POINT_S = 8.0
OFTEN = {"drainer.tail.between_parts": 8}
"""Points that are drawn so many times as often as others, and kill sooner: few transactions are
large."""
WEIGHTS = {"drainer-1": 2, "drainer-2": 2, "applier": 3, "nats-server": 2, "mariadbd": 2}
HOW = {"load": "under load", "again": "while it recovered", "point": "at a failpoint"}


class Rig:
    def __init__(self, town: Town, bus: Bus, *, seed: int, on_cycle: Callable[[str], None]) -> None:
        self.judge, self.chain = Judge(town.ledger, FEED), Chain(FEED)
        self.kills: Counter[str] = Counter()
        self.hows: Counter[str] = Counter()
        self.recovered_s: list[float] = []
        self.done = self.fired = 0
        """Cycles, and points that fired."""
        self.seconds = 0.0
        self._up = [0, 0.0]
        """Transactions that were acked while all were up, and how long that was."""
        self.rows = self.transactions = 0
        self.town, self._bus = town, bus
        self._rng = random.Random(f"kills/{seed}")
        self._on_cycle = on_cycle
        self._points = sorted(discovered().keys() - ELSEWHERE.keys())
        town.writer.acked, town.writer.known = self._acked, lambda: self.judge.acked

    def _acked(self) -> int:
        self.judge.look()
        return self.judge.acked

    # The whole ------------------------------------------------------------------------------

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """`work` is done between the beginning and the end. Raises Wrong."""
        self.town.start(RATE)
        try:
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(self.judge.run(self.town.nats.url))
                following = group.create_task(self.chain.follow(self._bus))
                await self._acks(FEWEST)
                began, before = time.monotonic(), self.judge.acked
                await work()
                self.seconds = time.monotonic() - began
                self.transactions = self.judge.acked - before
                await self._to_the_end()
                reading.cancel()
                following.cancel()
        except BaseExceptionGroup as errors:
            raise first_error(errors) from errors

    async def _to_the_end(self) -> None:
        """All that was ever acked is there, and nothing else."""
        self.town.stop_writer()
        process = self.town.writer.process
        assert process is not None
        await self._until(lambda: process.poll() is not None, mend=False)
        if process.returncode != 0:
            raise Wrong(f"the writer ended with {process.returncode}: {self.town.writer.log()}")
        self.town.writer.process = None
        await self._passed(self._newest())
        self.judge.settle()
        self.rows = self.judge.compare(self.town.database)

    def _newest(self) -> int:
        self.judge.look()
        return self.judge.last_acked

    async def _passed(self, commit_ts: int) -> None:
        """In the stream, and applied."""
        await self._until(lambda: min(self.judge.position, self.chain.marked) >= commit_ts)

        def applied() -> bool:
            self.town.look()
            return self.town.checkpoint >= commit_ts

        await self._until(applied)

    async def _acks(self, more: int) -> None:
        enough = self._acked() + more
        await self._until(lambda: self._acked() >= enough)

    async def _until(self, condition: Callable[[], bool], *, mend: bool = True) -> None:
        deadline = time.monotonic() + STUCK_S
        while not condition():
            if time.monotonic() > deadline:
                raise Wrong(f"nothing comes for {STUCK_S} s: {self.town.told()}")
            if mend:
                await self.town.mend()
            await asyncio.sleep(0.05)  # between two looks at other processes

    @property
    def ended(self) -> list[str]:
        return self.town.ended

    # Cycles ---------------------------------------------------------------------------------

    async def cycles(self, count: int, only: str = "") -> None:
        """`only`: how the names begin of those that die; all do else."""
        names = [name for name in self.town.by_name if name.startswith(only)]
        weighted = [name for name in names for _ in range(WEIGHTS.get(name, 1))]
        first = self._rng.sample(names, len(names))  # each dies, whatever chance says then
        for _ in range(count):
            began, before = time.monotonic(), self._acked()
            await self._acks(FEWEST)
            await asyncio.sleep(self._rng.random())
            self._up[0] += self._acked() - before
            self._up[1] += time.monotonic() - began
            drawn = [first.pop() if first else self._rng.choice(weighted)]
            others = [name for name in weighted if name not in drawn]
            if others and self._rng.random() < TWO:
                drawn.append(self._rng.choice(others))
            await self._cycle({name: self.town.by_name[name] for name in drawn})
            self.judge.settle()
            self.done += 1

    @property
    def rate(self) -> float:
        """Transactions a second while all were up."""
        return self._up[0] / max(0.1, self._up[1])

    async def _cycle(self, chosen: dict[str, Victim]) -> None:
        how = dict.fromkeys(chosen, "load")
        for name, victim in chosen.items():
            if victim.points and self._rng.random() < AT_A_POINT and await self._at_a_point(victim):
                how[name] = "point"
            await self.town.kill(victim)
        await asyncio.sleep(self._rng.random() * 0.5)
        began = time.monotonic()
        for name, victim in chosen.items():
            await asyncio.to_thread(victim.start)
            if victim.service is not None and self._rng.random() < AGAIN:
                await asyncio.sleep(self._rng.random() * 1.5)
                await self.town.kill(victim)
                self._count(name, "again")
                await asyncio.to_thread(victim.start)
        target = self._newest()
        for victim in chosen.values():
            await self._until(victim.ready)
        await self._passed(max(target, self._newest()))
        took = time.monotonic() - began
        self.recovered_s.append(took)
        for name in chosen:
            self._count(name, how[name])
        what = ", ".join(f"{name} {HOW[how[name]]}" for name in chosen)
        self._on_cycle(f"{self.done + 1:4} {took:6.1f} s  {what}")

    def _count(self, name: str, how: str) -> None:
        self.kills[name] += 1
        self.hows[how] += 1

    async def _at_a_point(self, victim: Victim) -> bool:
        """It is started again to die at a failpoint. False: that is not passed within POINT_S,
        and it lives. A Drainer is alone meanwhile, so that it leads."""
        points = [p for p in self._points if p.startswith(victim.points)]
        point = self._rng.choices(points, [OFTEN.get(p, 1) for p in points])[0]
        rival = self.town.rival(victim)
        if rival is not None:
            await self.town.kill(rival)
        try:
            return await self._arm(victim, point, "kill", POINT_S)
        finally:
            if rival is not None:
                await asyncio.to_thread(rival.start)

    async def _arm(self, victim: Victim, point: str, action: str, within_s: float) -> bool:
        """Start it anew with `action` armed; does that come about?"""
        service = victim.service
        assert service is not None
        soon = point in OFTEN or within_s == FIRES_S
        at = self._rng.randint(1, SOON if soon else PASSAGES)
        service.env["TIDELOG_FAILPOINTS"] = f"{point}={action}@{at}"
        await self.town.kill(victim)
        log = service.directory / "log"
        before = log.stat().st_size
        await asyncio.to_thread(victim.start)
        service.env.pop("TIDELOG_FAILPOINTS")
        process, deadline = service.process, time.monotonic() + within_s
        assert process is not None
        while time.monotonic() < deadline:
            if action == "kill" and process.poll() is not None:
                return process.returncode == -signal.SIGKILL  # any other end `kill` judges
            if failpoints.told(point, action).encode() in log.read_bytes()[before:]:
                return True
            if point.startswith(RETRIES):
                await self._lose_a_pump()
            await asyncio.sleep(0.05)  # between two looks at another process
        return False

    async def _lose_a_pump(self) -> None:
        """For a moment: what was on its way there is tried again."""
        pump = self.town.by_name["pump-1"]
        await self._until(pump.ready, mend=False)  # the victim may be dead by now, as it shall
        await self.town.kill(pump)
        await asyncio.to_thread(pump.start)

    # Points ---------------------------------------------------------------------------------

    def cases(self, actions: int, seed: int) -> list[tuple[str, str]]:
        """What the simulation can't fire."""
        made: list[tuple[str, str]] = []
        for number, point in enumerate(self._points):
            turned = [ACTIONS[(number + seed + turn) % 3] for turn in range(3)][:actions]
            made += [(point, action) for action in turned if needs_a_process(point, action)]
        return made

    async def points(self, cases: list[tuple[str, str]]) -> None:
        for point, action in cases:
            victim = self.town.by_name["writer" if point.startswith("client.") else "applier"]
            if not await self._arm(victim, point, action, FIRES_S):
                raise Wrong(f"NOT FIRED: {point} {action}")
            self.fired += 1
            began = time.monotonic()
            await asyncio.to_thread(victim.kill)
            await asyncio.to_thread(victim.start)
            await self._until(victim.ready)
            await self._passed(self._newest())
            self.judge.settle()
            took = time.monotonic() - began
            self._on_cycle(f"{self.fired:4} {took:6.1f} s  {point} {action}")


@contextlib.asynccontextmanager
async def staged(directory: Path, seed: int, on_cycle: Callable[[str], None]) -> AsyncIterator[Rig]:
    """A town and its rig; `run` starts it, at the end nothing of it is left."""
    with nats_server(directory) as nats, mariadb_server(directory) as database:
        town = Town(nats, database, directory, seed)
        bus = await NatsBus.connect(nats.url, timeout_s=10)
        await created(bus, "default", FEED)
        try:
            yield Rig(town, bus, seed=seed, on_cycle=on_cycle)
        finally:
            town.end()
            await bus.close()


async def play(options: argparse.Namespace, directory: Path) -> int:
    console = Console(stderr=True)
    async with staged(directory, options.seed, console.print) as rig:
        cases = rig.cases(options.points, options.seed)
        try:
            if options.points:
                await rig.run(lambda: rig.points(cases))
            else:
                await rig.run(lambda: rig.cycles(options.kills))
        except Wrong as error:
            print(f"cycle {rig.done + 1} of seed {options.seed}: {error}")
            return 1
    return _told(rig, options, len(cases), console)


def _told(rig: Rig, options: argparse.Namespace, cases: int, console: Console) -> int:
    said = f"seed {options.seed}"
    if options.points:
        wrong = [] if rig.fired == cases else [f"{rig.fired} of {cases} fired"]
        print(f"{rig.fired} fired, {rig.transactions} transactions")
        print(last_line("failpoints on processes", cases, said, wrong=len(wrong)))
        return 1 if wrong or not rig.transactions else 0
    took = sorted(rig.recovered_s)
    table = Table("killed", "times")
    for name, times in sorted(rig.kills.items()):
        table.add_row(name, str(times))
    console.print(table)
    middle = took[len(took) // 2]
    hows = ", ".join(f"{times} {HOW[how]}" for how, times in rig.hows.items())
    print(
        f"{hows}; all up and all acked applied after {middle:.1f} s (p50), {took[-1]:.1f} s at"
        f" most; {rig.rate:.0f} transactions/s while all were up, {rig.judge.large} larger than"
        f" a message and a batch, {rig.chain.abandoned} cut between their parts,"
        f" {rig.judge.ddls} DDLs ({rig.judge.early} behind rows that have their columns),"
        f" {rig.transactions} transactions, {rig.rows} rows equal,"
        f" {len(rig.ended)} starts that services asked for; {rig.seconds:.0f} s"
    )
    wrong = list(_too_little(rig, options.kills))
    for line in wrong:
        print(f"WRONG: {line}")
    print(last_line("kills", rig.done, said, wrong=len(wrong)))
    return 1 if wrong else 0


def _too_little(rig: Rig, wanted: int) -> Iterator[str]:
    """What a run must have met to prove anything."""
    if rig.done < wanted:
        yield f"{rig.done} cycles of {wanted}"
    if rig.rate < LEAST_RATE:
        yield f"{rig.rate:.0f} transactions/s while all were up, less than {LEAST_RATE}"
    if not rig.judge.early:
        yield "no row came before the DDL of its schema"
    if not rig.judge.large:
        yield "no transaction was large"
    if len(rig.ended) > rig.done:
        yield f"services ended by themselves {len(rig.ended)} times: {', '.join(rig.ended[:9])}"
    if rig.done >= len(rig.town.by_name):
        yield from (f"{name} was never killed" for name in rig.town.by_name if not rig.kills[name])
    if rig.done >= MANY and not rig.chain.abandoned:
        yield "nobody died between the parts of a large transaction"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=0, metavar="ACTIONS")
    options = parser.parse_args(argv)
    configure("auto", "error")
    with tempfile.TemporaryDirectory(prefix="kills-") as directory:
        return asyncio.run(play(options, Path(directory)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
