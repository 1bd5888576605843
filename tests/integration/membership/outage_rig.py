"""NATS goes away under load: `python -m tests.integration.membership.outage_rig --outages 50`.

T11 and T13, on real processes: nats-server is killed and started again; frozen, so that every
connection stands half open, and woken; or killed and started on a copy of its store that is older.
Every client is there all the while. Each transaction comes once, in order, gapless (I5), for a
reader by commit_ts that lives through it all, and in the stream as it stands at the end. Printed:
how long until what was committed after the server's return can be read.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.integration.membership import processes
from tests.integration.membership.rig import STUCK_S, Rig
from tests.integration.victim import Wrong
from tests.markers import marked
from tests.servers import NatsServer, nats_server
from tidelog.logs import configure

RESUMES_S = 10.0
FROZEN_S = (1.0, 6.0)
KILL, FREEZE, OLDER = "kill -9", "freeze", "older store"
KINDS = (KILL, KILL, KILL, FREEZE, OLDER)


def outages(count: int) -> list[str]:
    return [KINDS[at % len(KINDS)] for at in range(count)]


class OutageRig(Rig):
    """`took`: seconds from the server's return until the flow went on, by what had happened."""

    def __init__(self, nats: NatsServer, directory: Path, *, seed: int) -> None:
        super().__init__(nats, directory, seed=seed)
        self._nats = nats
        self._older = directory / "older"
        self._rng = random.Random(seed)
        self.took: dict[str, list[float]] = {}

    async def suffer(self, kinds: Sequence[str]) -> None:
        """Raises Wrong."""
        began = time.monotonic()
        try:
            await processes.create_feed(self._url)
            await asyncio.to_thread(self._begin)
            async with self._loaded():
                for kind in kinds:
                    self.doing = kind
                    await self._outage(kind)
                    await self._flowing()
                    self.steps += 1
                self.doing = "end"
        finally:
            self.seconds = time.monotonic() - began
            await asyncio.to_thread(self.processes.kill)

    async def _end(self) -> None:
        """What an older store had lost was published again: no hole is left behind."""
        await super()._end()
        async with asyncio.timeout(STUCK_S):
            found = await marked(self.bus, processes.FEED)
        if len(found) != self.committed:
            raise Wrong(f"{self.committed} committed, and {len(found)} are in the stream")

    async def _outage(self, kind: str) -> None:
        if kind == OLDER:
            await asyncio.to_thread(self._copy_store)
            await self._flowing()
        await asyncio.to_thread(self._strike, kind)
        began, before = time.monotonic(), self.last_commit_ts

        async def resumed() -> bool:
            return self.stream.position > before

        await self._until(resumed, "the flow")
        self.took.setdefault(kind, []).append(time.monotonic() - began)

    def _strike(self, kind: str) -> None:
        if kind == FREEZE:
            self._nats.pause()
            time.sleep(self._rng.uniform(*FROZEN_S))  # the fault itself: so long it is frozen
            self._nats.resume()
            return
        self._nats.kill()
        if kind == OLDER:
            self._nats.wipe()
            shutil.copytree(self._older, self._nats.store)
        self._nats.start()

    def _copy_store(self) -> None:
        """Of a server that stands still, as a snapshot of its volume has it."""
        shutil.rmtree(self._older, ignore_errors=True)
        self._nats.kill()
        shutil.copytree(self._nats.store, self._older)
        self._nats.start()

    def slowest(self) -> float:
        return max((s for times in self.took.values() for s in times), default=0.0)

    def resumed(self) -> str:
        shown = [f"{k}: {', '.join(f'{s:.1f}' for s in t)} s" for k, t in self.took.items()]
        return f"the flow went on after {'; '.join(shown)}"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--outages", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    configure("auto", "error")
    with (
        tempfile.TemporaryDirectory(prefix="outage-rig-") as directory,
        nats_server(Path(directory)) as nats,
    ):
        rig = OutageRig(nats, Path(directory), seed=options.seed)
        try:
            asyncio.run(rig.suffer(outages(options.outages)))
        except Wrong as error:
            print(f"outage {rig.steps} of seed {options.seed}: {error}")
            return 1
    print(rig.summary())
    print(rig.resumed())
    print(f"the slowest took {rig.slowest():.1f} s; it has to be less than {RESUMES_S:.0f} s")
    return int(rig.slowest() >= RESUMES_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
