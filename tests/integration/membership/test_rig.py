"""Pumps come, pause, die and leave under load, and nothing is lost; services that break a promise
of theirs are caught (reliability R4; I3, I4)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.integration.membership.rig import FEWEST, Rig
from tests.integration.membership.script import Change, Outage, Step, script
from tests.integration.victim import Wrong
from tests.planted.bugs import DRAINER, Bug, Edit
from tests.planted.copy import PATHS, copied, plant
from tests.servers import nats_server

REGISTRY = "services/registry/tidelog_registry"
SEEDS = 200


def test_a_full_script_kills_each_five_times_and_a_quarter_once() -> None:
    for seed in range(SEEDS):
        for quarter, kills in ((False, 5), (True, 1)):
            steps = script(seed, quarter=quarter)
            met = [outage for step in steps for outage in step.outages]
            assert sorted(o.value for o in met) == sorted(o.value for o in [*Outage] * kills)
            assert {step.change for step in steps} == set(Change)
            assert len({step.pump for step in steps if "offline" in step.change.value}) == 2


def test_nothing_is_lost_from_one_pump_to_four_to_two(tmp_path: Path) -> None:
    steps = script(7, quarter=True)
    with nats_server(tmp_path) as nats:
        rig = Rig(nats, tmp_path, seed=7)
        asyncio.run(rig.run(steps))
    print(rig.summary())
    assert rig.steps == len(steps)
    assert rig.stream.checked == rig.committed >= FEWEST * len(steps), "a quiet run proves nothing"


BROKEN = (
    (
        Bug(
            "a Drainer that does not ask source 0 and was not told",
            "is not in the stream",
            (
                Edit(
                    f"{DRAINER}/merge/collector.py",
                    "        self._consulted = clock.monotonic()\n        state =",
                    "        self._consulted = clock.monotonic()\n"
                    "        if self._view.trusted:\n"
                    "            return True\n"
                    "        state =",
                ),
            ),
        ),
        [Step(Change.JOIN_FROZEN, 2)],
    ),
    (
        Bug(
            "a Pump that is offline before all have read it",
            "offline before the Drainer had read it",
            (
                Edit(
                    f"{REGISTRY}/cluster.py",
                    "        if node.behind:\n            return closing\n",
                    "        node.behind = ()\n",
                ),
            ),
        ),
        [Step(Change.JOIN, 2), Step(Change.OFFLINE_FROZEN, 2)],
    ),
    (
        Bug(
            "a Drainer that lets a closing Pump go with what is unread",
            "is not in the stream",
            (
                Edit(
                    f"{DRAINER}/merge/membership.py",
                    "= member.state != OFFLINE\n",
                    '= member.state not in (OFFLINE, "closing")\n',
                ),
            ),
        ),
        [Step(Change.JOIN, 2), Step(Change.OFFLINE_FROZEN, 2)],
    ),
)


@pytest.mark.parametrize(("bug", "steps"), BROKEN, ids=lambda given: getattr(given, "name", ""))
def test_a_service_that_breaks_its_word_is_caught(
    bug: Bug, steps: list[Step], tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    with nats_server(tmp_path) as nats, copied() as whole:
        plant(bug, whole, copy)
        rig = Rig(nats, tmp_path, seed=3)
        for service in rig.processes.all:
            service.env["PYTHONPATH"] = os.pathsep.join(str(copy / part) for part in PATHS)
        with pytest.raises(Wrong, match=bug.breaks):
            asyncio.run(rig.run(steps))
