"""Three of the twenty restarts of `python -m tests.acceptance.restarts`; CI has the capture whose
history the original could not follow."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.restarts import Restarts, run
from tests.fixtures.capture import SETS, Set

RESTARTS = 3


@pytest.mark.parametrize("which", [pytest.param(SETS[0], marks=pytest.mark.full), SETS[1]])
def test_contents_hold_whenever_the_drainer_is_restarted(which: Set, tmp_path: Path) -> None:
    restarts = Restarts(which, RESTARTS, 7)
    run(which, restarts, tmp_path)
    assert len(restarts.positions) == RESTARTS
    assert restarts.lives >= RESTARTS - 1
