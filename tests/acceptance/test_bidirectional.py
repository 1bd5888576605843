"""Two clusters into each other for 15 seconds, with kills (`bidirectional.py` for longer)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.acceptance.bidirectional import LEAST, Rig, clusters

SECONDS, KILLS = 15, 2


@pytest.mark.timeout(300)
def test_no_echo_and_both_sides_equal(tmp_path: Path) -> None:
    with clusters(tmp_path) as sides:
        rig = Rig(sides, seed=1)
        asyncio.run(rig.run(SECONDS, KILLS, tmp_path / "state"))
        assert sum(rig.kills.values()) == KILLS
        assert all(side.users.committed > LEAST for side in sides)
