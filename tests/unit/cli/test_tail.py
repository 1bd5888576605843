"""`tidelog tail --until-idle` ends where the stream ended when it began, and not before."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.subscriber.feed import FEED, FeedWriter, Txn
from tidelog.errors import StreamMissing
from tidelog.feed_reader import newest_mark
from tidelog.ports import Bus
from tidelog.sim.world import World, run
from tidelog_cli import tail


async def tailed(bus: Bus, after: int | None = None) -> list[int]:
    found = tail.follow(
        bus,
        "c",
        FEED,
        after=after,
        table="",
        watermarks=False,
        until_idle=True,
        rewinds="",
    )
    return [line["commit_ts"] async for line in found]


def test_a_server_that_is_away_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        await feed.create()
        await feed.batch([Txn(10, {("a", "b"): [1]})])
        await feed.batch([Txn(11, {("a", "b"): [2]})])
        await feed.watermark(15)

        async def last_answer(bus: Bus, feed: str) -> int | None:
            found = await newest_mark(bus, feed)
            world.nats.stop()
            return found

        monkeypatch.setattr(tail, "newest_mark", last_answer)
        tailing = asyncio.ensure_future(tailed(bus))
        await world.sleep(10)
        world.nats.start()
        assert await tailing == [10, 11]

    run(main, 1)


def test_where_nothing_is_left_it_ends() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        with pytest.raises(StreamMissing):
            await tailed(bus)
        feed = FeedWriter(bus)
        await feed.create()
        assert await tailed(bus) == []
        await feed.batch([Txn(10, {("a", "b"): [1]})])
        assert await tailed(bus, 9) == [10]
        assert await tailed(bus, 10) == []
        assert await tailed(bus, 99) == []

    run(main, 1)
