"""A standby takes over from a leader that is killed, frozen and woken, or stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.integration.drainer.takeover_rig import HOWS, Rig
from tests.servers import nats_server


def test_each_transaction_once_over_takeovers(tmp_path: Path) -> None:
    with nats_server(tmp_path) as nats:
        rig = Rig(nats, tmp_path, takeovers=len(HOWS), seed=5)
        asyncio.run(rig.run())
    print(rig.summary())
    assert rig.hows.total() == len(HOWS)
    assert rig.live.checked == rig.whole.checked == len(rig.ledger.order)
