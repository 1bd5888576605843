"""Every I/O call of a life fails once; `make crash` has every way of failing (nth_run.py)."""

from __future__ import annotations

import pytest

from tests.crash.nth_run import PARTS, Part, closing, meet


@pytest.mark.full
@pytest.mark.parametrize(
    "part", [p for p in PARTS if p[1:] in {("lost", "process"), ("index", "power")}]
)
def test_the_nth_call_fails(part: Part) -> None:
    found = meet(part, 1)
    assert not found.wrong
    assert found.cases >= 20
    assert closing([found]).startswith(f"n-th I/O call fails: {found.cases} cases, 0 lost, ")


def test_a_run_that_met_too_little_fails() -> None:
    found = meet(Part("ddls", "io", "power"), 1)
    assert not found.wrong
    assert "1 WRONG" in closing([found._replace(wrong=["no more than 3 calls were met"])])
