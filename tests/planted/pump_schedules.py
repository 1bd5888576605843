"""Schedules that show what the Pump must not do (schedule.py)."""

from __future__ import annotations

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
from tests.planted.schedule import Schedule, acked, calm, lease_expired
from tidelog_registry.members import COPY as MEMBERS_COPY

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
    Schedule(
        "watermark-past-open",
        "the writer gets no processor from a Commit's arrival on, while the Drainer pulls",
        "loss",
        partial(calm, clients=2, rate=40.0),
        (
            Step(
                When("workload", "request", ".pump-1.write", binlog="Commit"),
                (Stall("pump-1", "pump.writer", 0.3),),
                nth=4,
                times=3,
            ),
        ),
    ),
    Schedule(
        "page-without-its-last",
        "the Drainer is cut off until a pull holds several transactions",
        "loss",
        calm,
        (
            Step(acked("pump-1"), (Cut("drainer"),), nth=5),
            Step(acked("pump-1"), (Reconnect("drainer"),), nth=20),
        ),
    ),
    Schedule(
        "start-cuts-a-good-record",
        "a Pump's power fails when a writer hears of an ack",
        "loss",
        partial(calm, clients=1, rate=20.0),
        (Step(acked("pump-1"), (PowerLoss("pump-1", back_s=0.2),), nth=4, times=3),),
    ),
    Schedule(
        "other-bytes-than-written",
        "nothing has to go wrong",
        "other",
        calm,
        (),
        says="its bytes or its table's schema are wrong",
    ),
    Schedule(
        "indexer-skips-records",
        "nothing has to go wrong, for long enough",
        "loss",
        partial(calm, transactions=500, rate=400.0),
        (),
    ),
    Schedule(
        "undecided-taken-for-rolled-back",
        "the oracle gives no commit_ts for longer than the Pump waits before it asks",
        "loss",
        partial(calm, clients=2, rate=40.0),
        (Step(acked("pump-1"), (Stall("registry", "registry.tso", 3.0),), nth=4),),
    ),
)
