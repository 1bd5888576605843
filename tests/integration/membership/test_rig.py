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
from tests.planted.bugs import BY_NAME
from tests.planted.copy import PATHS, copied, plant
from tests.planted.killed import MEMBERSHIP, Kill, of
from tests.servers import nats_server

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


STEPS = {
    "source-0-not-asked-once-trusted": [Step(Change.JOIN_FROZEN, 2)],
    "offline-before-it-is-read": [Step(Change.JOIN, 2), Step(Change.OFFLINE_FROZEN, 2)],
    "closing-pump-let-go": [Step(Change.JOIN, 2), Step(Change.OFFLINE_FROZEN, 2)],
}


@pytest.mark.parametrize("kill", of(MEMBERSHIP), ids=lambda kill: kill.bug)
def test_a_service_that_breaks_its_word_is_caught(kill: Kill, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    with nats_server(tmp_path) as nats, copied() as whole:
        plant(BY_NAME[kill.bug], whole, copy)
        rig = Rig(nats, tmp_path, seed=3)
        for service in rig.processes.all:
            service.env["PYTHONPATH"] = os.pathsep.join(str(copy / part) for part in PATHS)
        with pytest.raises(Wrong, match=kill.says):
            asyncio.run(rig.run(STEPS[kill.bug]))
