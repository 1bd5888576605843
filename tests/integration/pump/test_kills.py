"""A Pump that is killed under load keeps its word; Pumps that don't are caught (reliability R4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.pump.kill_rig import FEWEST, Rig
from tests.planted.copy import copied
from tests.planted.killed import PUMP, Kill, of
from tests.planted.kills import is_right, shown
from tests.servers import nats_server

KILLS = 6


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


@pytest.mark.parametrize("kill", of(PUMP), ids=lambda kill: kill.bug)
def test_a_pump_that_breaks_its_word_is_caught(kill: Kill, tmp_path: Path) -> None:
    with copied() as whole:
        found = shown(kill, whole, tmp_path)
    assert is_right(kill, found), found or "not caught"
