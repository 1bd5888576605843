"""What goes wrong with PD and TiKV in a history's safety phase, beside the faults of `chaos.py`."""

from __future__ import annotations

import random
from collections import Counter

from tests.simulation.plan import (
    MOVES,
    PD_AWAY,
    PD_FREEZES,
    PD_MOVES,
    PD_OLD,
    PD_SILENT,
    SPLITS,
    STORE_AWAY,
    STORE_SILENT,
    Tidb,
)
from tests.simulation.tidb import PDS, TidbCluster
from tests.unit.upstream.fake_tikv import STORES
from tidelog.sim import World

ELECTION_S = 3.0
"""PD's leader has a lease of three seconds; another one is elected when it is over."""
LONG_S = 12.0
"""Longer than anybody asks PD for one timestamp."""


class TidbFaults:
    """One after the other, `plan.pause_s` apart on average, until `heal`."""

    def __init__(self, world: World, plan: Tidb, cluster: TidbCluster) -> None:
        self._world = world
        self._plan = plan
        self._net, self._pd, self._tikv = cluster.net, cluster.pd, cluster.tikv
        self._rng: random.Random = world.random("pd/faults")
        self._version = 1
        self.counts: Counter[str] = Counter()

    async def run(self) -> None:
        while self._plan.faults:
            await self._world.sleep(self._rng.random() * 2 * self._plan.pause_s)
            fault = self._rng.choice(self._plan.faults)
            self._world.trace.note("tidb", fault)
            await self._do(fault)
            self.counts[fault] += 1

    async def _do(self, fault: str) -> None:
        match fault:
            case _ if fault == PD_MOVES:
                self._elect()
            case _ if fault == PD_OLD:
                self._pd.believes[self._pd.leader] = self._pd.leader
                self._elect()
                await self._world.sleep(self._rng.random() * ELECTION_S)
                self._pd.believes.clear()
            case _ if fault == PD_FREEZES:
                await self._freeze()
            case _ if fault == PD_SILENT:
                await self._during(self._net.silent, PDS, self._rng.random() * LONG_S)
            case _ if fault == PD_AWAY:
                await self._during(self._net.down, PDS, self._rng.random() * LONG_S)
                self._elect()
            case _ if fault == SPLITS:
                await self._split()
            case _ if fault == MOVES:
                await self._move()
            case _ if fault == STORE_SILENT:
                await self._during(self._net.silent, self._stores(), self._rng.random() * 4)
            case _ if fault == STORE_AWAY:
                await self._during(self._net.down, self._stores(), self._rng.random() * 4)
            case _:
                raise LookupError(f"no such fault: {fault}")

    def _elect(self) -> None:
        self._pd.elect(self._rng.choice([pd for pd in PDS if pd != self._pd.leader]))

    async def _freeze(self) -> None:
        """In the middle of its streams; what it had answered comes when another one leads."""
        frozen = self._pd.leader
        self._net.silent.add(frozen)
        await self._world.sleep(self._rng.random() * ELECTION_S)
        self._elect()
        await self._world.sleep(self._rng.random())
        self._net.silent.discard(frozen)

    def _stores(self) -> list[str]:
        return self._rng.sample(list(STORES.values()), self._rng.randint(1, len(STORES)))

    async def _during(self, what: set[str], servers: list[str] | tuple[str, ...], s: float) -> None:
        what.update(servers)
        await self._world.sleep(s)
        what.difference_update(servers)

    async def _split(self) -> None:
        """At keys of the load; PD hears of it later, or a store's word is the first one."""
        known = self._tikv.known()
        at = sorted(set(self._rng.sample(known, min(len(known), self._rng.randint(1, 3)))))
        self._version += 1
        bounds = list(zip([b"", *at], [*at, b""], strict=True))
        self._tikv.set_regions(bounds, version=self._version)
        await self._tell_pd()

    async def _move(self) -> None:
        self._tikv.told = self._rng.random() < 0.5
        self._tikv.leaders = {
            region: self._rng.choice(list(STORES)) for region in self._tikv.leaders
        }
        await self._tell_pd()

    async def _tell_pd(self) -> None:
        await self._world.sleep(self._rng.random() * 2)
        self._tikv.tell_pd()

    def heal(self) -> None:
        self._net.silent.clear()
        self._net.down.clear()
        self._pd.believes.clear()
        self._tikv.told = True
        self._tikv.tell_pd()
