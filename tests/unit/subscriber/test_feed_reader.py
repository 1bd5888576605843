"""What every reader of a feed has in common."""

from __future__ import annotations

import pytest

from tests.unit.subscriber.feed import FEED, FeedWriter, Txn
from tidelog.change_reader import ChangeReader, Gap
from tidelog.sim.world import World, run


def test_what_stands_in_front_of_a_gap_is_returned_before_it() -> None:
    """Its position is behind that: whoever goes on from it elsewhere would miss it."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        await feed.create()
        await feed.batch([Txn(10, {("a", "b"): [1]})])
        feed.prev = 20
        await feed.batch([Txn(30, {("a", "b"): [2]})])
        reader = ChangeReader(bus, FEED, 0)
        assert [change.commit_ts for change in await reader.next()] == [10]
        assert reader.position == 10
        with pytest.raises(Gap):
            await reader.next()
        assert reader.position == 10
        await reader.close()

    run(main, 1)
