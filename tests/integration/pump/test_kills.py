"""A Pump that is killed under load keeps its word (reliability R4). Pumps that don't are caught by
`python -m tests.planted.kills`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.pump.kill_rig import FEWEST, Rig
from tests.servers import nats_server

KILLS = 6


@pytest.mark.full
def test_nothing_is_lost_by_kills_under_load(tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats:
        rig = Rig(nats, tmp_path, kills=KILLS, seed=7)
        asyncio.run(rig.run())
    print(rig.summary())
    assert rig.kills.total() == KILLS
    under_load = sum(count for moment, count in rig.kills.items() if moment != "start")
    assert rig.ledger.acked >= FEWEST * under_load / 2, "a quiet run proves nothing"
    assert rig.checked >= rig.ledger.acked / 2
    assert rig.large
