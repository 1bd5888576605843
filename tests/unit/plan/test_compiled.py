"""`make compiled` runs these tests on the wheel's modules: they are then really compiled."""

from __future__ import annotations

import os

import pytest

from tidelog.plan import causality, keys


@pytest.mark.parametrize("module", [causality, keys])
def test_the_modules_under_test_are_the_ones_asked_for(module: object) -> None:
    wanted = ".so" if os.environ.get("TIDELOG_TEST_COMPILED") else ".py"
    assert str(module.__file__).endswith(wanted)  # type: ignore[attr-defined]
