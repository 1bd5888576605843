"""What breaks on machines: disks that fill up, fail or are slow, indexes, clocks."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tidelog.sim import Node
from tidelog.sim.disk import KINDS

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

JUMP_MS = 20_000
"""How far off a clock may jump: two that differ the most stay within the allowed skew, 60 s."""
WITHIN_CALLS = 20
"""The call that fails is one of the next so many that change something."""


class Hardware:
    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._rng = rng

    def wear(self, what: str) -> bool:
        """One of the faults, on a machine of its choice. False: there is no such fault here."""
        pumps, services, rng = self._cluster.pumps, self._cluster.services, self._rng
        match what:
            case "io error":
                self._fail(rng.choice(pumps), "io")
            case "bad disk":
                self._fail(rng.choice(services), rng.choice(list(KINDS)))
            case "disk full":
                self._fill(rng.choice(pumps))
            case "slow disk":
                self._slow_disk(rng.choice(services))
            case "slow index":
                self._slow_indexes(rng.choice([*pumps, None]))
            case "index fails":
                self._break_indexes(rng.choice(pumps))
            case "clock jump":
                node = rng.choice(services)
                node.jump(node.skew_ms + rng.randint(-JUMP_MS, JUMP_MS))
            case _:
                return False
        return True

    def heal(self) -> None:
        """All is as good as new. Clocks stay off: within the allowed skew they may."""
        for node in self._cluster.services:
            node.disk.clear_faults()
            for stored in node.indexes.values():
                stored.slow = stored.failing = False

    def _fail(self, node: Node, how: str) -> None:
        node.disk.fail_nth(self._rng.randrange(1, WITHIN_CALLS), how)
        self._world.trace.note(node.name, "soon", KINDS[how])

    def _fill(self, node: Node) -> None:
        node.disk.full = True
        self._world.trace.note(node.name, "disk full")
        self._world.loop.call_later(self._rng.random() * 2, setattr, node.disk, "full", False)

    def _slow_disk(self, node: Node) -> None:
        node.disk.slow_s = self._rng.choice((0.02, 0.2))
        self._world.trace.note(node.name, "slow disk", node.disk.slow_s)
        self._world.loop.call_later(self._rng.random() * 4, setattr, node.disk, "slow_s", 0.0)

    def _slow_indexes(self, node: Node | None) -> None:
        """They, or everybody's, don't keep up with their own work for a while."""
        for pump in self._cluster.pumps if node is None else [node]:
            self._world.trace.note(pump.name, "slow index")
            for stored in pump.indexes.values():
                stored.slow = True
                after_s = self._rng.random() * self._rng.choice((1.0, 5.0))
                self._world.loop.call_later(after_s, setattr, stored, "slow", False)

    def _break_indexes(self, pump: Node) -> None:
        """What is read or written next fails, and they can't be opened again."""
        self._world.trace.note(pump.name, "index fails")
        for stored in pump.indexes.values():
            stored.failing = True
