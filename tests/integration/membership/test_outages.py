"""NATS is killed, frozen, and put on an older copy of its store, under load (T11, T13 in small)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.membership.outage_rig import KINDS, OutageRig, outages
from tests.integration.membership.rig import FEWEST
from tests.servers import nats_server


def test_the_flow_goes_on_whatever_becomes_of_nats(tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats:
        rig = OutageRig(nats, tmp_path, seed=3)
        asyncio.run(rig.suffer(outages(len(KINDS))))
    print(rig.resumed())
    assert {kind: len(times) for kind, times in rig.took.items()} == {
        kind: KINDS.count(kind) for kind in KINDS
    }
    assert rig.stream.checked == rig.committed >= FEWEST * len(KINDS)
