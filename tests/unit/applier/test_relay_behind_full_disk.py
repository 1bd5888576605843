"""A relay that goes on behind a full disk."""

from __future__ import annotations

import pytest

from tests.unit.applier.publisher import Publisher
from tests.unit.applier.test_intake import drained, endlessly, intake_of, published
from tidelog.errors import DiskFull
from tidelog.sim.world import World, run


def test_a_watermark_before_it_leaves_no_gap() -> None:
    """That was handed on, and is not kept: the next record follows the last one that is."""

    async def main(world: World) -> None:
        node = world.node("applier")
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        await publisher.rows(**published(1))
        intake = intake_of(node.ports(), "relay", 0)
        found = await drained(intake)
        applied = found[-1].commit_ts  # the checkpoint: what is behind it is not saved yet
        await publisher.watermark(publisher.commit_ts + 3)
        assert await drained(intake) == []
        assert intake.position > applied
        node.disk.full = True
        await publisher.rows(**published(2))
        with pytest.raises(DiskFull):
            await endlessly(intake, [])
        node.disk.full = False
        found += await drained(intake)
        await intake.close()
        # Killed here, and started again from its checkpoint:
        again = await drained(intake_of(node.ports(), "relay", applied))
        assert [one.commit_ts for one in again] == [publisher.commit_ts]

    run(main, seed=1)
