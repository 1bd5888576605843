"""Without its upstream the Applier brings the downstream to a state of the source (T6)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.acceptance.recovery_drill import Rig
from tests.servers import nats_server

DRILLS = 2


@pytest.mark.timeout(400)
def test_the_downstream_is_what_the_source_was_at_the_commit_ts_that_recovery_says(
    tmp_path: Path,
) -> None:
    with nats_server(tmp_path) as nats:
        rig = Rig(nats, tmp_path, kills=DRILLS, seed=3)
        asyncio.run(rig.run())
    print(rig.summary())
    assert rig.replayed
    assert len(rig.recovery_s) == DRILLS
