"""A schedule for each planted bug: a calm cluster is led into the moment that it makes unsafe.

A schedule waits for events, never for times, so that it stays valid when timing changes elsewhere.
It is clean without its bug; with it, `finds` is found, whatever the seed. CI plays them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.planted.director import (
    AcceptLoss,
    Cut,
    LoseFile,
    LoseMembership,
    PowerLoss,
    Reconnect,
    Stall,
    Start,
    Step,
    When,
)
from tests.simulation.plan import Appliers, Plan
from tidelog.sim.disk import DiskFaults
from tidelog.sim.downstream import DatabaseFaults
from tidelog.sim.faults import NetFaults
from tidelog_registry.members import COPY as MEMBERS_COPY

NEVER_S = 1e6


@dataclass(frozen=True)
class Schedule:
    """`moment` says how the steps make the bug of this name show. `seed` is the one that CI plays;
    the others must do, too (`make planted` tells how many of ten)."""

    bug: str
    moment: str
    finds: str
    plan: Callable[[int], Plan]
    steps: tuple[Step, ...]
    seed: int = 0


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


SCHEDULES = (
    Schedule(
        "ack-before-sync",
        "fdatasync is slow, and the Pump's power fails when a writer hears of an ack",
        "loss",
        partial(calm, sync_s=0.05, clients=1, rate=20.0),
        (Step(acked("pump-1"), (PowerLoss("pump-1", back_s=0.2),), nth=4, times=3),),
    ),
    Schedule(
        "closed-when-appended",
        "the indexer gets no processor from a Commit's arrival on, while the Drainer pulls",
        "loss",
        partial(calm, clients=1, rate=20.0),
        (
            Step(
                When("workload", "request", ".pump-1.write", binlog="Commit"),
                (Stall("pump-1", "pump.indexer", 0.3),),
                nth=4,
                times=3,
            ),
        ),
    ),
    Schedule(
        "chaser-without-a-cap",
        "the indexer gets no processor until the chaser is on, and goes on before the chaser reads;"
        " the Drainer has timestamps of another Pump",
        "loss",
        partial(
            calm,
            pumps=2,
            transactions=200,
            rate=100.0,
            clients=8,
            index_buffer=256,
            slow_write_s=0.02,
        ),
        (
            Step(
                When("workload", "request", ".pump-1.write", binlog="Commit"),
                (Stall("pump-1", "pump.indexer", 0.15),),
                nth=8,
                times=10,
            ),
        ),
    ),
    Schedule(
        "scan-before-resolved",
        "the sorter gets no processor after a pull's scan, so that it has news when asked again",
        "loss",
        partial(calm, follow=True, clients=1, rate=100.0),
        (
            Step(
                When("pump-1", "index.scan", "c"),
                (Stall("pump-1", "pump.sorter", 0.05),),
                nth=2,
                times=5,
            ),
        ),
    ),
    Schedule(
        "cut-reports-full-resolved",
        "pulls are small and the Drainer is cut off until more waits than one of them holds",
        "loss",
        partial(calm, pull_bytes=1024),
        (
            Step(acked("pump-1"), (Cut("drainer"),), nth=5),
            Step(acked("pump-1"), (Reconnect("drainer"),), nth=20),
        ),
    ),
    Schedule(
        "sorter-behind-the-index-buffer",
        "the indexer gets no processor from a Prewrite's arrival on, when nothing else is open, and"
        " what the other Pump then takes moves this one's W",
        "loss",
        partial(calm, pumps=2, clients=1, rate=20.0),
        (
            Step(
                When("workload", "request", ".pump-1.write", binlog="Prewrite"),
                (Stall("pump-1", "pump.indexer", 0.5),),
                nth=4,
                times=2,
            ),
        ),
    ),
    Schedule(
        "merge-takes-equal-for-later",
        "nobody asks an oracle, so that each resolved_ts is a commit_ts: nothing has to go wrong",
        "loss",
        partial(calm, follow=True, clients=1, rate=20.0),
        (),
    ),
    Schedule(
        "checkpoint-before-apply",
        "the downstream is slow, and the Applier's power fails when one lane is through",
        "loss",
        partial(calm, clients=2, rate=20.0, transactions=120, database_s=0.1),
        (Step(When("applier", "rows"), (PowerLoss("applier", back_s=0.1),), nth=4, times=2),),
    ),
    Schedule(
        "source-0-not-asked",
        "the Drainer's heartbeats stop, so that a Pump joins without asking it, while it emits",
        "loss",
        partial(calm, late=1, transactions=90, rate=12.0),
        (
            Step(acked("pump-1"), (Stall("drainer", "drainer.membership/live", 8.0),), nth=5),
            Step(lease_expired("drainer", "drainer"), (Start("pump-2"),)),
            Step(acked("pump-2"), (), nth=5),
        ),
    ),
    Schedule(
        "begins-without-the-bucket",
        "a Pump joins and is written to while the Drainer is down beyond its lease",
        "loss",
        partial(calm, late=1, transactions=90, rate=12.0),
        (
            Step(acked("pump-1"), (PowerLoss("drainer"),), nth=5),
            Step(lease_expired("drainer", "drainer"), (Start("pump-2"),)),
            Step(acked("pump-2"), (Start("drainer"),), nth=5),
        ),
    ),
    Schedule(
        "sources-forgotten",
        "a Pump is off with what nobody has read; the membership bucket and the registry's copy of"
        " it are lost, and the Drainer begins anew",
        "loss",
        partial(calm, pumps=2, transactions=120, rate=8.0),
        (
            Step(acked("pump-2"), (Cut("drainer"),), nth=5),
            Step(
                acked("pump-2"),
                (
                    PowerLoss("pump-2"),
                    LoseMembership(),
                    LoseFile("registry", MEMBERS_COPY),
                    PowerLoss("registry", back_s=0.1),
                    PowerLoss("drainer", back_s=0.1),
                ),
                nth=5,
            ),
        ),
    ),
    Schedule(
        "log-not-announced",
        "a Pump is off with what nobody has read; the membership bucket and the registry's copy of"
        " it are lost; it comes back before an oracle answers, after the other one did, and dies"
        " while it joins",
        "loss",
        # The load lasts beyond the 6 s for which the Drainer doubts the new bucket.
        partial(calm, late=1, transactions=120, rate=6.0),
        (
            Step(acked("pump-1"), (Start("pump-2"),), nth=5),
            Step(acked("pump-2"), (Cut("drainer"),), nth=5),
            Step(
                acked("pump-2"),
                (
                    PowerLoss("pump-2"),
                    LoseMembership(),
                    LoseFile("registry", MEMBERS_COPY),
                    PowerLoss("registry", back_s=0.1),
                ),
                nth=5,
            ),
            Step(When("registry", "publish", ".event.pump.pump-1"), (Start("pump-2"),)),
            Step(
                When("registry", "publish", ".event.pump.pump-2"),
                # The bucket is lost once more, so that the join goes on only after the lease.
                (PowerLoss("pump-2"), LoseMembership()),
            ),
            # Its lease ran out. The Drainer looks who is a source.
            Step(When("registry", "publish", ".event.pump.pump-2"), (Reconnect("drainer"),)),
        ),
    ),
    Schedule(
        "copy-abandoned-early",
        "a Pump falls silent with a Prewrite, another takes it and is lost with its Commit, and an"
        " operator gives that one up: the first one's copy is what is left of the transaction",
        "loss",
        # All commit, and the load lasts until a lease is over.
        partial(calm, pumps=2, transactions=150, clients=1, rate=8.0, rollback_share=0.0),
        (
            Step(When("workload", "request", ".pump-1.write", binlog="Prewrite"), (), nth=4),
            # It is entered: what this Pump has resolved stays below it.
            Step(
                When("pump-1", "disk.append", ".vlog"),
                (Stall("pump-1", "pump.writer", 6.0),),
            ),
            Step(
                When("workload", "request", ".pump-2.write", binlog="Commit"),
                (PowerLoss("pump-2"),),
            ),
            Step(lease_expired("pump", "pump-2"), (AcceptLoss("pump-2"),)),
        ),
    ),
)

BY_BUG = {schedule.bug: schedule for schedule in SCHEDULES}
