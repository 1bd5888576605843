"""Pumps come, pause, die and leave under load, and nothing is lost (reliability R4; I3, I4).
Services that break a promise of theirs are caught by `python -m tests.planted.kills`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.membership.rig import FEWEST, Rig
from tests.integration.membership.script import Change, Outage, script
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


@pytest.mark.full
def test_nothing_is_lost_from_one_pump_to_four_to_two(tmp_path: Path) -> None:
    steps = script(7, quarter=True)
    with nats_server(tmp_path) as nats:
        rig = Rig(nats, tmp_path, seed=7)
        asyncio.run(rig.run(steps))
    print(rig.summary())
    assert rig.steps == len(steps)
    assert rig.stream.checked == rig.committed >= FEWEST * len(steps), "a quiet run proves nothing"
