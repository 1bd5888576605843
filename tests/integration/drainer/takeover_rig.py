"""Two Drainers of a feed: `python -m tests.integration.drainer.takeover_rig --takeovers 20`.

Real processes, as in `kill_rig`: under load the leader is killed (SIGKILL), frozen (SIGSTOP) and
woken once the other one leads, or stopped in order (SIGTERM). Each transaction must come once, in
order, gapless, for who reads all the while and for who reads from the start; and the old leader
stands by again. Printed: how long it takes until what was committed afterwards can be read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.integration.drainer.kill_rig import FEWEST, Rig
from tests.integration.pump_client.cluster import Service
from tests.integration.victim import Wrong
from tests.servers import NatsServer, nats_server
from tidelog.logs import configure

HOWS = {"kill -9": signal.SIGKILL, "freeze": signal.SIGSTOP, "stop": signal.SIGTERM}
AIM_S = 5.0
RATE = 15
"""Transactions a second: with a reader in this process, that a slow machine keeps up with, so that
no backlog of ours is taken for the Drainers'."""


class TakeoverRig(Rig):
    """By how the leader went, seconds until the other one publishes (`led`), and until what was
    committed afterwards was read (`read`): the backlog is between the two."""

    def __init__(self, nats: NatsServer, directory: Path, *, takeovers: int, seed: int) -> None:
        super().__init__(nats, directory, kills=takeovers, seed=seed)
        self._rate = RATE
        flags = [*self._flags, "--node-id"]
        self._pair = [
            Service("tidelog_drainer", directory / node, [*flags, node]) for node in ("d1", "d2")
        ]
        self._others += self._pair
        self.victim.service = self._pair[0]
        self.led: dict[str, list[float]] = {how: [] for how in HOWS}
        self.read: dict[str, list[float]] = {how: [] for how in HOWS}

    async def _round(self, moment: str) -> None:
        how = list(HOWS)[self.kills.total() % len(HOWS)]
        leader = await self._who(leads=True)
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
        self.kills[how] += 1

    async def _who(self, *, leads: bool) -> Service:
        found: list[Service] = []

        def known() -> bool:
            found[:] = [one for one in self._pair if self._said(one).get("leads") == leads]
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

    def _start(self, moment: str) -> None:
        """Both run all the while."""

    async def _ready(self) -> bool:
        return True

    def slowest(self) -> float:
        return max(max(times, default=0.0) for times in self.led.values())

    def summary(self) -> str:
        taken = f"taken over after {_shown(self.led)}\nread after {_shown(self.read)}"
        return f"{super().summary()}\n{taken}"


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
        rig = TakeoverRig(nats, Path(directory), takeovers=options.takeovers, seed=options.seed)
        try:
            asyncio.run(rig.run())
        except Wrong as error:
            print(f"takeover {rig.kills.total()} of seed {options.seed}: {error}")
            return 1
    print(rig.summary())
    print(f"the slowest took {rig.slowest():.1f} s, the aim is {AIM_S:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
