"""Schedules that show what the Drainer must not do (schedule.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.planted.director import (
    LEADER,
    Cut,
    LoseChanges,
    LoseFile,
    LoseMembership,
    Offline,
    PowerLoss,
    Reconnect,
    Stall,
    Start,
    Step,
    When,
)
from tests.planted.schedule import Schedule, acked, calm, lease_expired
from tests.simulation.plan import Plan
from tidelog.sim.faults import NetFaults
from tidelog_registry.members import COPY as MEMBERS_COPY

_WITHOUT_A_LEASE = (
    Step(acked("pump-1"), (Stall(LEADER, "drainer.lease/live", 8.0),), nth=5),
    Step(acked("pump-1"), (), nth=40),
)
_TAKEN_OFFLINE = (
    Step(
        acked("pump-2"),
        (Stall("drainer", "drainer.collector/cursor-pump-2/pull", 3.0), Offline("pump-2")),
        nth=5,
    ),
)


def _with_standby(seed: int) -> Plan:
    """Slowly, so that there is time between two appends, and longer than the lease is lost."""
    return replace(calm(seed, transactions=60, rate=4.0), standby=True)


def _with_ddls(seed: int) -> Plan:
    return replace(calm(seed, transactions=120), ddl_share=0.2)


def _filled_slowly(seed: int) -> Plan:
    """Each message takes its time, and a pull holds a few transactions only."""
    slow = NetFaults(delay_s=0.01, tail_chance=0.0)
    return replace(calm(seed, transactions=120, pull_bytes=2048), net=slow)


SCHEDULES = (
    Schedule(
        "merge-takes-equal-for-later",
        "nobody asks an oracle, so that each resolved_ts is a commit_ts: nothing has to go wrong",
        "loss",
        partial(calm, follow=True, clients=1, rate=20.0),
        (),
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
        "slow-pump-left-out",
        "a Pump is cut off with what nobody has read, while another goes on",
        "loss",
        partial(calm, pumps=2, transactions=90, rate=20.0),
        (
            Step(acked("pump-2"), (Cut("pump-2"),), nth=5),
            Step(acked("pump-1"), (Reconnect("pump-2"),), nth=40),
        ),
    ),
    Schedule(
        "batch-without-its-fence",
        "the Drainer that leads loses its lease without knowing it, and goes on beside the other",
        "rule",
        _with_standby,
        _WITHOUT_A_LEASE,
        says="stands behind a mark|says that",
    ),
    Schedule(
        "epoch-not-compared",
        "the Drainer that leads loses its lease without knowing it, and goes on beside the other",
        "rule",
        _with_standby,
        _WITHOUT_A_LEASE,
        says="stands behind a mark|says that",
    ),
    Schedule(
        "answer-lost-taken-for-refused",
        "the Drainer loses its connection when its batch has arrived, before the answer",
        "rule",
        partial(calm, transactions=90, rate=20.0),
        (
            Step(When("drainer", "append", "CHANGES_MAIN"), (Cut("drainer"),), nth=15),
            Step(acked("pump-1"), (Reconnect("drainer"),), nth=20),
            # If that was a watermark, this is what was committed meanwhile.
            Step(When("drainer", "append", "CHANGES_MAIN"), (Cut("drainer"),), nth=2),
            Step(acked("pump-1"), (Reconnect("drainer"),), nth=10),
        ),
        says="stands behind a mark",
    ),
    Schedule(
        "marker-before-rows",
        "nothing has to go wrong",
        "gap",
        calm,
        (),
    ),
    Schedule(
        "position-of-the-first-transaction",
        "the Drainer's power fails behind a marker of several transactions",
        "rule",
        partial(calm, clients=8, transactions=120),
        (
            Step(acked("pump-1"), (PowerLoss("drainer", back_s=0.1),), nth=20),
            Step(When("drainer", "start"), ()),
            Step(acked("pump-1"), (PowerLoss("drainer", back_s=0.1),), nth=20),
        ),
        says="stands behind a mark",
    ),
    Schedule(
        "chain-begun-anew",
        "the Drainer's power fails",
        "rule",
        calm,
        (Step(acked("pump-1"), (PowerLoss("drainer", back_s=0.1),), nth=20),),
        says="says that 0 is before it",
    ),
    Schedule(
        "closing-pump-let-go",
        "a Pump is to go offline with what the Drainer, which is slow to pull, has not read",
        "loss",
        partial(calm, pumps=2, transactions=90, rate=20.0),
        _TAKEN_OFFLINE,
    ),
    Schedule(
        "offline-before-it-is-read",
        "a Pump is to go offline with what the Drainer, which is slow to pull, has not read",
        "loss",
        partial(calm, pumps=2, transactions=90, rate=20.0),
        _TAKEN_OFFLINE,
    ),
    Schedule(
        "read-again-taken-for-new",
        "the change stream is lost, and filled again for whoever has read less, so slowly that"
        " another reads it meanwhile",
        "duplicate",
        _filled_slowly,
        (Step(acked("pump-1"), (LoseChanges(),), nth=60),),
    ),
    Schedule(
        "newest-structure-for-all-rows",
        "the Drainer is cut off while tables are altered",
        "other",
        _with_ddls,
        (
            Step(acked("pump-1"), (Cut("drainer"),), nth=5),
            Step(acked("pump-1"), (Reconnect("drainer"),), nth=60),
        ),
        says="has other rows than upstream",
    ),
    Schedule(
        "source-0-not-asked-once-trusted",
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
        "structures-after-their-rows",
        "tables are altered, and each life of the Drainer ends when it has appended a batch",
        "other",
        lambda seed: replace(calm(seed, transactions=200, rate=8.0), ddl_share=0.6),
        (
            Step(
                When("drainer", "append", "CHANGES_MAIN"),
                (PowerLoss("drainer", back_s=0.1),),
                nth=2,
                times=40,
            ),
        ),
        says="no liveness",
    ),
    Schedule(
        "each-batch-twice", "nothing has to go wrong", "duplicate", calm, (), says="stream of"
    ),
    Schedule(
        "drop-that-touches-nothing",
        "tables are dropped",
        "other",
        _with_ddls,
        (),
        says="upstream has no such table",
    ),
    Schedule(
        "ddl-with-another-text",
        "tables are altered",
        "other",
        _with_ddls,
        (),
        says="has the DDLs",
    ),
)
