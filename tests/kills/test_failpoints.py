"""The list of failpoints, and that a run of them can fail."""

from __future__ import annotations

import pytest

from tests.kills.failpoints import cases, counted, simulated
from tests.kills.points import ELSEWHERE, LEAST, ROOT, discovered, needs_a_process
from tests.kills.simulated import ACTIONS, Case, fire, reach
from tests.last_line import ZEROS, verdict
from tests.simulation.cluster import History
from tidelog import failpoints
from tidelog.errors import IoFailed, Unavailable


def test_enough_points_each_at_one_place() -> None:
    found = discovered()
    assert len(found) >= LEAST
    for point, test in ELSEWHERE.items():
        assert point in found
        assert point in (ROOT / test).read_text()


def test_one_action_each_is_another_one_for_another_seed() -> None:
    one, other, each = simulated(1, 1), simulated(1, 2), simulated(3, 1)
    assert len(one) == len(other)
    assert not set(one) & {(p, a) for p, a in other if not p.startswith("client.")}
    assert {action for _, action in one} == set(ACTIONS)
    assert set(one) < set(each)
    assert not [pair for pair in each if needs_a_process(*pair)]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_point_fires_where_an_earlier_history_passed_it(action: str) -> None:
    passed = reach(1, 4)
    assert passed.history.findings.clean, passed.history.findings.text(4)
    wanted = [("pump.segments.after_sync", action)]
    (case,) = cases(wanted, [passed], 1)
    outcome = fire(case)
    assert outcome.fired
    assert outcome.history.findings.clean, outcome.history.findings.text(case)
    assert outcome.history.transactions


def test_one_that_no_history_passes_is_no_case_and_does_not_fire() -> None:
    passed = reach(1, 4)
    assert not list(cases([("pump.nowhere", "kill")], [passed], 1))
    assert not fire(Case("pump.nowhere", "kill", 1, 4, 1)).fired


def test_zeros_are_said_of_no_run_that_fails() -> None:
    fine, idle = History(1, transactions=1), History(1)
    assert verdict(counted([fine], LEAST, 0), 1) == ZEROS
    assert verdict(counted([fine], LEAST, 2), 1) == "2 NOT FIRED"
    assert verdict(counted([fine], LEAST - 1, 0), 1) == "1 POINTS TOO FEW"
    assert verdict(counted([fine, idle], LEAST, 0), 1) == "1 WITHOUT TRAFFIC"


def test_what_a_call_fails_with() -> None:
    assert isinstance(failpoints.failure("pump.segments.after_sync"), IoFailed)
    assert isinstance(failpoints.failure("client.lane.before_send"), Unavailable)
