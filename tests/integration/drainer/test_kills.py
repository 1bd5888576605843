"""A Drainer that is killed publishes each transaction once, in order, gapless (I5)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.integration.drainer.kill_rig import FEWEST, Rig
from tests.servers import nats_server

KILLS = 5


@pytest.mark.full
def test_each_transaction_once_in_order_over_kills(tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats:
        rig = Rig(nats, tmp_path, kills=KILLS, seed=7)
        asyncio.run(rig.run())
    print(rig.summary())
    assert rig.kills.total() == KILLS
    under_load = sum(count for moment, count in rig.kills.items() if moment != "start")
    assert rig.live.checked == rig.whole.checked == len(rig.ledger.order)
    assert rig.whole.checked >= FEWEST * under_load / 2, "a quiet run proves nothing"
    assert rig.load.large
    assert rig.load.ddls
