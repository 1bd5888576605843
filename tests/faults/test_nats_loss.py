"""NATS is killed, frozen, put on an older store, on a damaged one and on none (T11, T13, R12 in
small)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.adapters.mysql.mysql_rig import UNSYNCED
from tests.faults.nats_loss import Kind, Rig
from tests.faults.stack import FEWEST
from tests.servers import mariadb_server, nats_server

SEED = 3
OLDER_S = (2.0, 5.0)


@pytest.mark.timeout(300)
def test_nothing_is_lost_whatever_becomes_of_nats(tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats, mariadb_server(tmp_path, *UNSYNCED) as database:
        rig = Rig(nats, database, tmp_path, seed=SEED, older_s=OLDER_S)
        asyncio.run(rig.run(list(Kind), print))
    print(rig.summary())
    assert {kind: len(times) for kind, times in rig.resumed.items()} == dict.fromkeys(Kind, 1)
    assert rig.cases == len(Kind) == len(rig.settled)
    assert rig.late.checked == len(rig.stack.ledger.order) >= FEWEST * len(Kind)
