"""What `make full` runs once before a release: each suite with its whole counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.planted.bugs import BUGS
from tests.planted.killed import KILLS


class Suite(NamedTuple):
    """`module`: a Python module and its arguments. `alone`: it measures memory or a rate, which
    others beside it would change. `cases`: how many there are, where a list of ours says it; 0
    where the command does, or nobody. `judge`: one more whenever a suite looks at more, or is
    stricter: what it passed before says too little then."""

    name: str
    module: str
    alone: bool = False
    environ: Mapping[str, str] = {}
    cases: int = 0
    judge: int = 0

    @property
    def command(self) -> str:
        """As a person would type it."""
        values = [f"{key}={value}" for key, value in self.environ.items()]
        return " ".join([*values, "python -m", self.module])


SUITES = (
    Suite("n-th I/O", "tests.crash.nth_run --calls 1500 --jobs 2"),
    Suite("failpoints on processes", "tests.kills.rig --points 3"),
    Suite("failpoints", "tests.kills.failpoints --jobs 2"),
    Suite("planted bugs", "tests.planted.run", cases=len(BUGS)),
    Suite("kills", "tests.kills.rig --kills 200", judge=1),
    Suite("crash states", "tests.crash.run --states 100000 --jobs 2"),
    Suite("bad input", "tests.fuzz.run --inputs 200000"),
    Suite("bit flips, cuts", "tests.crash.damage --jobs 2"),
    Suite("disk full", "tests.faults.disk_full --fills 200"),
    Suite("NATS loss", "tests.faults.nats_loss --cases 200", alone=True),
    Suite("network faults", "tests.faults.network --repeats 20 --swizzles 200"),
    Suite("recovery drill", "tests.acceptance.recovery_drill --kills 50"),
    Suite(
        "kills of the Applier",
        "tests.integration.applier.kill_rig --kills 100 --database-kills 20 --outages 10",
    ),
    Suite("planted bugs under kills", "tests.planted.kills", cases=len(KILLS)),
    Suite("restarts", "tests.acceptance.restarts --restarts 20"),
    Suite("growing and shrinking", "tests.integration.membership.rig"),
    Suite("take-over", "tests.integration.drainer.takeover_rig --takeovers 20"),
    Suite("filtered feed", "tests.acceptance.filtered", judge=1),
    Suite("bidirectional", "tests.acceptance.bidirectional --minutes 10"),
    Suite("round trips of MySQL", "tests.adapters.mysql.round_trips", judge=1),
    Suite(
        "literals of MySQL",
        "pytest -q tests/adapters/mysql/test_literals.py",
        judge=1,
        environ={"TIDELOG_LITERALS": "20000"},
    ),
    Suite("schema size", "tests.schema_size.run", judge=1),
    Suite("schema size, history in a file", "tests.schema_size.run --history file", judge=1),
    Suite("schema size, history embedded", "tests.schema_size.run --history embedded", judge=1),
    Suite("large transactions", "tests.integration.drainer.large_rig --kills 3", judge=1),
    Suite("kills of Spark", "tests.spark.kill_rig --kills 10"),
    Suite("backfill", "tests.spark.backfill_rig --rows 2000000"),
    Suite("hand-over", "tests.spark.hand_over_rig --changes 1000000"),
    Suite(
        "places of a replay",
        "pytest -q tests/spark/test_replay_set_a.py",
        environ={"TIDELOG_TEST_PLACES": "20"},
    ),
    Suite(
        "large replay",
        "pytest -q tests/spark/test_replay_large.py",
        environ={"TIDELOG_TEST_RELAY_MIB": "2048"},
    ),
    Suite(
        "tests marked full",
        "pytest -q -n 2 --dist loadfile -m full tests/acceptance tests/integration tests/spark",
        environ={"TIDELOG_TEST_FULL": "1"},
    ),
    Suite("simulation", "tests.simulation.full --jobs 2 --seconds 1800"),
    Suite("coverage", "tests.coverage.run"),
    Suite("memory", "bench memory apply-memory replay", alone=True),
    Suite("soak", "tests.soak.run --minutes 180 --rate 580 --least 500", alone=True),
)
