"""Every I/O call of a life fails once; `make crash` has every way of failing (nth_run.py)."""

from __future__ import annotations

import pytest

from tests.crash.nth import DISK_KINDS
from tests.crash.nth_run import PARTS, Part, closing, meet
from tidelog.sim.disk import SimDisk


@pytest.mark.full
@pytest.mark.parametrize(
    "part", [p for p in PARTS if p[1:] in {("lost", "process"), ("index", "power")}]
)
def test_the_nth_call_fails(part: Part) -> None:
    found = meet(part, 1)
    assert not found.wrong
    assert found.cases >= 20
    assert closing([found]).startswith(f"n-th I/O call fails: {found.cases} cases, 0 lost, ")


@pytest.mark.parametrize("kind", DISK_KINDS)
def test_calls_that_did_not_fail_are_no_cases_and_fail_the_run(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Nothing is injected: each life is untouched, and proves nothing."""

    def untouched(disk: SimDisk, number: int, what: str = "io") -> None: ...

    part = Part("ddls", kind, "process")
    real = meet(part, 1)
    assert not real.wrong
    assert real.cases == real.told.total() - real.told["could not fail"] >= 10
    assert (real.told["could not fail"] > 0) == (kind == "full")

    monkeypatch.setattr(SimDisk, "fail_nth", untouched)
    found = meet(part, 1)
    assert found.cases == 0
    assert found.wrong == [f"{part}: no more than 0 of {real.told.total()} calls failed"]
    assert "0 cases, NOTHING WAS TRIED" in closing([found])


def test_a_run_that_met_too_little_fails() -> None:
    found = meet(Part("ddls", "io", "power"), 1)
    assert not found.wrong
    assert "1 WRONG" in closing([found._replace(wrong=["no more than 3 calls were met"])])
