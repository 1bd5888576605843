"""A schedule for each planted bug: a calm cluster is led into the moment that it makes unsafe.

A schedule waits for events, never for times, so that it stays valid when timing changes elsewhere.
It is clean without its bug; with it, `finds` is found, whatever the seed. CI plays them all.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tests.planted.director import (
    Step,
    When,
)
from tests.simulation.plan import Appliers, Plan
from tidelog.sim.disk import DiskFaults
from tidelog.sim.downstream import DatabaseFaults
from tidelog.sim.faults import NetFaults

NEVER_S = 1e6


@dataclass(frozen=True)
class Schedule:
    """`moment` says how the steps make the bug of this name show, as a finding of the kind `finds`
    that says `says` (a regular expression). `seed` is the one that CI plays; the others must do,
    too (`make planted` tells how many of ten)."""

    bug: str
    moment: str
    finds: str
    plan: Callable[[int], Plan]
    steps: tuple[Step, ...]
    seed: int = 0
    says: str = ""

    def caught_by(self, found: dict[str, list[str]]) -> str:
        """The finding that is the bug's own, "" if there is none."""
        told = found.get(self.finds, ())
        return next((sentence for sentence in told if re.search(self.says, sentence)), "")


def calm(
    seed: int,
    *,
    pumps: int = 1,
    late: int = 0,
    transactions: int = 60,
    rate: float = 200.0,
    clients: int = 4,
    sync_s: float = 0.0005,
    follow: bool = False,
    pull_bytes: int = 4 << 20,
    index_buffer: int = 16 << 20,
    slow_write_s: float = 1.0,
    rollback_share: float = 0.05,
    database_s: float = 0.0005,
) -> Plan:
    """Nothing goes wrong but by a step. `late` Pumps come only by `Start`."""
    return Plan(
        seed=seed,
        pumps=pumps,
        strategy="range",
        transactions=transactions,
        clients=clients,
        rate=rate,
        ddl_share=0.0,
        net=NetFaults(tail_chance=0.0),
        disk=DiskFaults(sync_s=sync_s, stall_chance=0.0, keeps_unsynced=False),
        database=DatabaseFaults(delay_s=database_s),
        appliers=Appliers(lanes=2),
        faults={},
        pause_s=1.0,
        from_the_start=False,
        skew_ms=0,
        segment_bytes=500 << 20,
        follow=follow,
        pull_bytes=pull_bytes,
        late_s=(NEVER_S,) * late,
        hold=0.0,
        away="",
        dead_share=0.0,
        rollback_share=rollback_share,
        settled=True,
        index_buffer=index_buffer,
        slow_write_s=slow_write_s,
        liveness_s=20.0,
    )


def acked(pump: str) -> When:
    """A writer hears that its Prewrite is taken."""
    return When("workload", "answered", f".{pump}.write", binlog="Prewrite")


def lease_expired(kind: str, node: str) -> When:
    """The registry says that what a node is to it changed: it is no more heard of."""
    return When("registry", "publish", f".event.{kind}.{node}")
