"""The explorer finds mistakes: each of these, made in the Pump's code, fails in some state."""

from __future__ import annotations

import pytest

from tests.crash.explore import explore
from tests.crash.mutations import MUTATIONS, Mutation
from tests.crash.scenarios import SCENARIOS

ENOUGH = 1500


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mistake_is_caught(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == mutation.scenario)
    monkeypatch.setattr(mutation.owner, mutation.function, mutation.apply())
    report = explore(scenario, ENOUGH, stop_at=1)
    assert report.failures, f"{report.line()}: {mutation.name} was not noticed"
