"""A replay that is killed and begun again; `python -m tests.spark.kill_rig` has more of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import MariaDb
from tests.spark.kill_rig import play


@pytest.mark.timeout(300)
def test_driver_and_worker_killed_somewhere(server: MariaDb, tmp_path: Path) -> None:
    rig = play(server, tmp_path, kills=1, workers=1, seed=8)
    assert rig.lives == 2
