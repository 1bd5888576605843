"""Schedules that show what the Applier must not do (schedule.py)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tests.planted.director import (
    PowerLoss,
    Restart,
    Step,
    When,
)
from tests.planted.schedule import Schedule, calm
from tidelog.sim.downstream import DatabaseFaults

_SLOW = partial(calm, clients=2, rate=20.0, transactions=120, database_s=0.1)

SCHEDULES = (
    Schedule(
        "checkpoint-before-apply",
        "the downstream is slow, and the Applier's power fails when its checkpoint is saved",
        "other",
        partial(_SLOW, transactions=200),
        (Step(When("applier", "commit"), (PowerLoss("applier", back_s=0.1),), nth=3, times=5),),
        says="no row|is there already",
    ),
    Schedule(
        "ddl-beside-rows",
        "the downstream is slow, and tables are altered",
        "other",
        lambda seed: replace(calm(seed, database_s=0.05, transactions=150), ddl_share=0.2),
        (),
        says="which does not exist|no row .*(update|delete)|not upstream",
    ),
    Schedule(
        "unsafe-after-an-unclean-stop",
        "the downstream is slow, and the Applier's power fails when one lane is through",
        "other",
        _SLOW,
        (Step(When("applier", "rows"), (PowerLoss("applier", back_s=0.1),), nth=4, times=2),),
        says="is applied again|is there already|no row",
    ),
    Schedule(
        "unsafe-after-a-lost-answer",
        "each tenth answer of the downstream is lost",
        "duplicate",
        lambda seed: replace(
            calm(seed, transactions=200), database=DatabaseFaults(delay_s=0.005, unknown=0.1)
        ),
        (),
        says="is there already",
    ),
    Schedule(
        "consistent-before-the-first-row",
        "the Applier begins at a clean end, and its power fails when some lanes are through",
        "other",
        partial(_SLOW, transactions=300),  # still under way when it is back
        (
            Step(When("applier", "rows"), (Restart("applier", back_s=0.1),), nth=4),
            Step(When("applier", "start"), ()),
            Step(When("applier", "rows"), (PowerLoss("applier", back_s=0.1),), nth=2, times=3),
        ),
        says="is applied again|is there already|no row",
    ),
)
