"""The explorer finds mistakes: each of these, made in the real code, fails in some state."""

from __future__ import annotations

import pytest

from tests.crash.explore import explore
from tests.crash.mutation import NTH, Mutation
from tests.crash.mutations import MUTATIONS
from tests.crash.nth_run import Part, meet
from tests.crash.scenarios import PROTOCOLS, named

ENOUGH = 1500


def noticed(who: str) -> bool:
    """Does it go wrong, whichever call fails?"""
    return bool(meet(Part(who, "lost", "process"), 1).wrong)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mistake_is_caught(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation.owner, mutation.function, mutation.apply())
    if mutation.scenario.startswith(NTH):
        assert noticed(mutation.scenario.removeprefix(NTH)), f"{mutation.name} was not noticed"
        return
    report = explore(named(mutation.scenario), ENOUGH, stop_at=1)
    assert report.failures, f"{report.line()}: {mutation.name} was not noticed"


def test_each_protocol_has_a_mistake_that_is_caught() -> None:
    broken = {named(one.scenario).protocol for one in MUTATIONS if not one.scenario.startswith(NTH)}
    assert broken == {*PROTOCOLS}
