"""The explorer finds mistakes: each of these, made in the Pump's code, fails in some state."""

from __future__ import annotations

import itertools

import pytest

from tests.crash.explore import explore
from tests.crash.mutations import MUTATIONS, NTH, Mutation
from tests.crash.nth import fail
from tests.crash.scenarios import SCENARIOS
from tidelog.errors import TidelogError

ENOUGH = 1500


def noticed() -> bool:
    """Does it go wrong, whichever call fails?"""
    for nth in itertools.count(1):
        try:
            if not fail(nth, "lost", "process").reached:
                break
        except (AssertionError, TidelogError):
            return True
    return False


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mistake_is_caught(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation.owner, mutation.function, mutation.apply())
    if mutation.scenario == NTH:
        assert noticed(), f"{mutation.name} was not noticed"
        return
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == mutation.scenario)
    report = explore(scenario, ENOUGH, stop_at=1)
    assert report.failures, f"{report.line()}: {mutation.name} was not noticed"
