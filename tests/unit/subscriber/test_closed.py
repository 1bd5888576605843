"""A subscription that one task iterates and another one closes."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.subscriber.feed import FeedWriter, Txn
from tests.unit.subscriber.test_subscription import A, in_world, transactions
from tidelog.errors import Unavailable
from tidelog.ports import Bus
from tidelog.sim.world import World


def test_who_iterates_is_told_when_another_task_closes_it() -> None:
    """It opened the stream again, and waited for what comes next without an end."""

    async def work(world: World, bus: Bus, feed: FeedWriter) -> None:
        subscription = transactions(bus)
        iterating = asyncio.ensure_future(anext(subscription))
        await asyncio.sleep(2)
        await subscription.close()
        with pytest.raises(Unavailable, match="the subscription is closed"):
            async with asyncio.timeout(5):
                await iterating
        await feed.batch([Txn(10, {A: [1]})])
        lengths = set()
        for _ in range(3):
            with pytest.raises(Unavailable, match="the subscription is closed") as told:
                await anext(subscription)
            lengths.add(len(told.traceback))
            del told
        assert len(lengths) == 1, "who asks again and again has it say more each time"

    in_world(work)
