"""What histories found, reduced to the few steps that matter."""

from __future__ import annotations

import pytest

from tidelog import record
from tidelog.errors import IoFailed
from tidelog.sim import World, run
from tidelog_pump.log.segments import Segments


@pytest.mark.parametrize("seed", range(30))
def test_a_footer_whose_sync_failed_is_synced_before_the_next_segment(seed: int) -> None:
    """Seed 803: the footer was written, its sync failed, the restarted Pump began the next segment,
    and a power loss then tore the footer off a segment that was no longer the last."""

    async def main(world: World) -> None:
        node = world.node("pump")
        segments = Segments(node.ports().disk, segment_bytes=64, sync=True)
        await segments.open()
        await segments.append([record.frame(b"x" * 50)], 1)
        node.disk.fail_nth(2)  # the sync of the footer, after its append
        with pytest.raises(IoFailed):
            await segments.rotate(100)
        node.end()
        again = Segments(node.ports().disk, segment_bytes=64, sync=True)
        await again.open()
        assert len(again.fids) == 2
        node.kill()
        last = Segments(node.ports().disk, segment_bytes=64, sync=True)
        await last.open()
        found = [payload async for records in last.scan(last.start) for _, payload in records]
        assert [bytes(payload) for payload in found] == [b"x" * 50]

    run(main, seed)
