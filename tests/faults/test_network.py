"""Each toxic once and each link at least once; `make full` runs every cell (R10)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.adapters.mysql.mysql_rig import UNSYNCED
from tests.faults.network import LINKS, Rig, share
from tests.faults.toxics import Kind
from tests.servers import mariadb_server, nats_server

SEED = 1


@pytest.mark.timeout(300)
def test_everything_arrives_whatever_the_network_did(tmp_path: Path) -> None:
    cells = share(SEED)
    assert {kind for kind, _ in cells} == set(Kind)
    assert {link for _, link in cells} == set(LINKS)
    with nats_server(tmp_path) as nats, mariadb_server(tmp_path, *UNSYNCED) as database:
        rig = Rig(nats, database, tmp_path, seed=SEED)
        asyncio.run(rig.run(cells))
    print(rig.summary())
    assert rig.cells == len(cells)
