"""Room for large transactions: what is promised to one is no other's, and is given back."""

from __future__ import annotations

import pytest

from tidelog.errors import DiskFull, IoFailed, TidelogError
from tidelog.sim.world import World, run
from tidelog_drainer.merge.spool import KEPT_FREE, Spool, SpoolFull


@pytest.mark.parametrize(("what", "error"), [("full", DiskFull), ("io", IoFailed)])
def test_a_file_that_can_t_be_made_keeps_no_room(what: str, error: type[TidelogError]) -> None:
    async def main(world: World) -> None:
        node = world.node("drainer")
        node.disk.faults.capacity = KEPT_FREE + 1500
        spool = Spool(node.ports().disk, 100)
        await spool.clear()
        node.disk.fail_nth(1, what)
        with pytest.raises(error):
            await spool.open(10, 1000)
        node.disk.clear_faults()
        assert spool.promised == 0
        file = await spool.open(11, 1000)
        with pytest.raises(SpoolFull, match="transaction 12 of 1000 bytes finds no room"):
            await spool.open(12, 1000)
        file.close()

    run(main, 1)
