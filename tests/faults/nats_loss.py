"""NATS is lost under load: `python -m tests.faults.nats_loss --cases 50`.

T11, T13, R12 on real processes: nats-server is killed and started again; frozen, so that every
connection stands half open, and woken; or killed and started on what became of its store: a copy of
it that is up to half a minute older (R12), the first one of the run, one with a bit flipped in a
stream's file, none at all. Where nats-server can't start on what it has, its store is deleted, as
docs/operating.md says. Everybody is there all the while. A registered subscriber, reading by
the library, has each transaction once, in order, and so has one that comes at the end and reads
from the beginning; the downstream is equal. Where nothing worse happened to the store than its age,
the stream itself has no hole.

A service that loses its stream again and again within seconds ends, as it does after any four
crashes (exit code 70), and is started again, as its orchestrator does. Printed: how often that was,
how long until what was committed after the server's return could be read, and until the registry
knew everybody again. The flow has to go on within RESUMES_S where the store is as it was, or half a
minute older. Of the first copy it is printed with the number of transactions that were published
since: they stand in front of what is new.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import msgspec

from tests.adapters.mysql.mysql_rig import UNSYNCED
from tests.faults.stack import (
    APPLIER,
    DRAINER,
    FEED,
    PUMPS,
    SERVICES,
    STUCK_S,
    Plan,
    Stack,
    Wrongs,
)
from tests.faults.subscriber import Subscriber
from tests.integration.drainer.load import CLUSTER
from tests.last_line import last_line
from tests.markers import marked
from tests.servers import MariaDb, NatsServer, mariadb_server, nats_server
from tests.wrong import Wrong
from tidelog import ask_registry, subjects
from tidelog.errors import TidelogError
from tidelog.kv import Bucket
from tidelog.logs import configure
from tidelog.membership import Member
from tidelog.messages import ONLINE

RESUMES_S = 10.0
"""For outages that leave the store as it is, or up to OLDER_S older."""
FROZEN_S = (1.0, 6.0)
OLDER_S = (10.0, 30.0)
"""How old the copy is that is put back."""
LONG_S = 300.0
"""To fill in all that a run has published."""
LOOK_S = 0.1
STAYS_S = 2.0
"""What is to be seen of the registry has to stay so long: it looks at its bucket each second."""


class Kind(Enum):
    KILL = "kill -9"
    FREEZE = "freeze"
    OLDER = "older store"
    FIRST = "the first store"
    FLIP = "bit flipped"
    DELETED = "store deleted"


CALM = (Kind.KILL, Kind.KILL, Kind.KILL, Kind.FREEZE, Kind.OLDER)
"""After these the stream is filled up again: no hole is left behind."""
HARD = (Kind.FLIP, Kind.DELETED, Kind.FLIP, Kind.OLDER, Kind.DELETED, Kind.FIRST)


def drawn(cases: int, seed: int) -> list[Kind]:
    """The first half of CALM, the second of HARD."""
    rng = random.Random(seed)
    half = (cases + 1) // 2
    calm = [CALM[at % len(CALM)] for at in range(half)]
    hard = [HARD[at % len(HARD)] for at in range(cases - half)]
    rng.shuffle(calm)
    rng.shuffle(hard)
    return calm + hard


@dataclass(frozen=True)
class Copy:
    """Of the server's store, as a snapshot has it; `at` on the monotonic clock."""

    directory: Path
    at: float
    transactions: int
    """As many were committed."""


class Rig:
    """`resumed`, `settled`: seconds from the server's return until the flow went on, and until the
    registry knew everybody again. `filled`: transactions since the first copy, each time that it
    was put back. `unstartable`: flips on which nats-server panicked when it started."""

    def __init__(
        self,
        nats: NatsServer,
        database: MariaDb,
        directory: Path,
        *,
        seed: int,
        older_s: tuple[float, float] = OLDER_S,
    ) -> None:
        self.cases = 0
        self.seconds = 0.0
        self.seed = seed
        self.resumed: dict[Kind, list[float]] = {}
        self.settled: list[float] = []
        self.filled: list[int] = []
        self.unstartable = 0
        self.stack = Stack(
            nats, database, directory, Plan(subscriber=True, orchestrated=SERVICES), seed=seed
        )
        self.late = Subscriber(self.stack.ledger, FEED, nats.url)
        self.stack.at_end = self._read_late
        self._nats = nats
        self._rng = random.Random(seed)
        self._older_s = older_s
        self._directory = directory
        self._copies: list[Copy] = []
        """The first and the newest."""
        self._flipped = ""

    async def run(
        self, cases: Sequence[Kind], on_case: Callable[[str], None] = lambda _: None
    ) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        calm = 0
        while calm < len(cases) and cases[calm] in CALM:
            calm += 1
        async with self.stack.loaded():
            for number, kind in enumerate(cases):
                if number == calm:
                    await self._no_hole()
                await self._case(kind)
                on_case(
                    f"{self.stack.doing}: {self.resumed[kind][-1]:.1f} s,"
                    f" the registry {self.settled[-1]:.1f} s"
                )
                self.cases += 1
            if calm == len(cases):
                await self._no_hole()
        self.seconds = time.monotonic() - began

    async def _read_late(self) -> None:
        async with asyncio.timeout(2 * STUCK_S):
            await self.late.run(self.stack.ledger.last_commit_ts)
        if self.late.checked != len(self.stack.ledger.order):
            raise Wrong(f"{len(self.stack.ledger.order)} committed, {self.late.checked} read late")

    async def _no_hole(self) -> None:
        """Up to what is committed now, the stream has each transaction by its markers."""
        upto = self.stack.ledger.last_commit_ts
        await self.stack.arrived(upto)
        async with asyncio.timeout(STUCK_S):
            found = [ts for ts in await marked(self.stack.bus, FEED) if ts <= upto]
        wanted = [ts for ts in self.stack.ledger.order if ts <= upto]
        if found != wanted:
            raise Wrong(f"{len(wanted)} committed, and {len(found)} are in the stream")

    async def _case(self, kind: Kind) -> None:
        self.stack.doing = kind.value
        if kind is Kind.OLDER:
            await self._aged()
        if kind is Kind.FIRST and not self._copies:
            await asyncio.to_thread(self._strike, Kind.KILL)
        await asyncio.to_thread(self._strike, kind)
        self.stack.doing = f"{kind.value} {self._flipped}".rstrip()
        began, before = time.monotonic(), self.stack.ledger.last_commit_ts
        settling = asyncio.create_task(self._until_settled(began))
        try:
            stuck_s = LONG_S if kind is Kind.FIRST else STUCK_S
            await self.stack.until(lambda: self.stack.live.position > before, "the flow", stuck_s)
            self.resumed.setdefault(kind, []).append(time.monotonic() - began)
            await settling
        finally:
            settling.cancel()
        await self.stack.caught_up()

    async def _aged(self) -> None:
        """The copy of the store is as old as it is to be, and transactions came since."""
        age_s = self._rng.uniform(*self._older_s)
        if not self._copies or time.monotonic() - self._copies[-1].at > self._older_s[1]:
            await asyncio.to_thread(self._strike, Kind.KILL)
        wait_s = self._copies[-1].at + age_s - time.monotonic()
        await asyncio.sleep(max(0.0, wait_s))  # the fault itself: so old it is
        await self.stack.caught_up()

    def _strike(self, kind: Kind) -> None:
        """Each time that it stands still with a store that nobody touched, that is copied."""
        self._flipped = ""
        if kind is Kind.FREEZE:
            self._nats.pause()
            time.sleep(self._rng.uniform(*FROZEN_S))  # the fault itself: so long it is frozen
            self._nats.resume()
            return
        self._nats.kill()
        match kind:
            case Kind.KILL:
                self._take_copy()
            case Kind.OLDER:
                self._put_back(self._copies[-1])
            case Kind.FIRST:
                self._put_back(self._copies[0])
                since = len(self.stack.ledger.order) - self._copies[0].transactions
                self.filled.append(since)
            case Kind.DELETED:
                self._take_copy()
                self._nats.wipe()
            case Kind.FLIP:
                self._flip()
        try:
            self._nats.start()
        except RuntimeError as error:
            if kind is not Kind.FLIP or "goroutine" not in str(error):
                raise
            self._flipped += ", nats-server did not start, store deleted"
            self.unstartable += 1
            self._nats.kill()
            self._nats.wipe()
            self._nats.start()

    def _take_copy(self) -> None:
        """The first one stays; of the others the newest."""
        directory = self._directory / ("newest" if self._copies else "first")
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(self._nats.store, directory)
        self._copies[1:] = []
        self._copies.append(Copy(directory, time.monotonic(), len(self.stack.ledger.order)))

    def _put_back(self, copy: Copy) -> None:
        self._nats.wipe()
        shutil.copytree(copy.directory, self._nats.store)

    def _flip(self) -> None:
        """One bit of one message block, of any stream or bucket."""
        blocks = [p for p in sorted(self._nats.store.rglob("*.blk")) if p.stat().st_size]
        by_stream: dict[Path, list[Path]] = {}
        for block in blocks:
            by_stream.setdefault(block.parent, []).append(block)
        chosen = self._rng.choice(by_stream[self._rng.choice(sorted(by_stream))])
        at = self._rng.randrange(chosen.stat().st_size)
        with chosen.open("r+b") as file:
            file.seek(at)
            byte = file.read(1)[0] ^ (1 << self._rng.randrange(8))
            file.seek(at)
            file.write(bytes([byte]))
        self._flipped = f"in {chosen.parent.parent.name} at {at} of {chosen.stat().st_size}"

    async def _until_settled(self, began: float) -> None:
        """The registry has heard of everybody, and so says the membership bucket, and it stays so:
        what it says first may be what it knew before it noticed."""
        since: float | None = None
        while (now := time.monotonic()) - began < STUCK_S:
            if not await self._is_settled():
                since = None
            elif since is None:
                since = now
            elif now - since >= STAYS_S:
                self.settled.append(since - began)
                return
            await asyncio.sleep(LOOK_S)  # nobody tells when the registry is content
        raise Wrong(f"{self.stack.doing}: the registry did not converge in {STUCK_S:.0f} s")

    async def _is_settled(self) -> bool:
        bus = self.stack.bus
        try:
            told = await ask_registry.nodes(bus, CLUSTER, timeout_s=2.0)
            entries, _ = await Bucket(bus, subjects.members_bucket(CLUSTER)).entries()
        except TidelogError:
            return False
        members = [msgspec.json.decode(entry.value, type=Member) for entry in entries.values()]
        online = {member.node for member in members if member.state == ONLINE}
        alive = {n.nodeId for n in told.nodes if n.isAlive and n.state == ONLINE}
        everybody = {*PUMPS, f"{DRAINER}-{FEED}", f"{APPLIER}-{FEED}"}
        return told.settled and everybody <= alive and online == set(PUMPS)

    def too_slow(self) -> int:
        """How often the flow went on too late, of the kinds that have a bound."""
        return sum(s >= RESUMES_S for kind in CALM for s in self.resumed.get(kind, ()))

    def summary(self) -> str:
        shown = [
            f"{k.value}: {', '.join(f'{s:.1f}' for s in t)} s" for k, t in self.resumed.items()
        ]
        return (
            f"{len(self.stack.ledger.order)} transactions ({self.stack.load.ddls} DDLs), each read"
            f" once and in order by a subscriber that was there and by one from the beginning, the"
            f" downstream equal; the flow went on after {'; '.join(shown)} (the first"
            f" with {self.filled} transactions to fill in; nats-server did not start on"
            f" {self.unstartable} of the flipped bits); the registry knew everybody after"
            f" {max(self.settled, default=0.0):.1f} s at most (aim {RESUMES_S:.0f} s); processes"
            f" started again: {dict(self.stack.restarted) or 0}; {self.seconds:.0f} s\n"
            + last_line("NATS loss", self.cases, f"seed {self.seed}", wrong=self.too_slow())
        )


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    if options.cases < 1:
        parser.error("nothing is to be tried")
    configure("auto", "error")
    with (
        tempfile.TemporaryDirectory(prefix="nats-loss-") as directory,
        nats_server(Path(directory)) as nats,
        mariadb_server(Path(directory), *UNSYNCED) as database,
    ):
        rig = Rig(nats, database, Path(directory), seed=options.seed)
        cases = drawn(options.cases, options.seed)
        try:
            asyncio.run(rig.run(cases, lambda what: print(what, flush=True)))
        except Wrongs as error:
            print(f"case {rig.cases} of seed {options.seed}: {error}")
            return 1
    if rig.too_slow():
        print(f"the flow has to go on in less than {RESUMES_S:.0f} s")
    print(rig.summary())
    return 1 if rig.too_slow() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
