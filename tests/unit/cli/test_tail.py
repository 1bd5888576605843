"""What `tidelog tail` shows; `--until-idle` ends where the stream ended when it began."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.subscriber.feed import FEED, FeedWriter, Txn
from tidelog.errors import BadInput, StreamMissing
from tidelog.feed_reader import newest_mark
from tidelog.ports import Bus
from tidelog.sim.world import World, run
from tidelog_cli import tail


async def shown(bus: Bus, after: int | None = None, **options: Any) -> list[tail.Line]:
    asked: dict[str, Any] = {
        "table": "",
        "watermarks": False,
        "until_idle": True,
        "rewinds": "",
    } | options
    return [line async for line in tail.follow(bus, "c", FEED, after=after, **asked)]


async def tailed(bus: Bus, after: int | None = None) -> list[int]:
    return [line["commit_ts"] for line in await shown(bus, after)]


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


def test_after_now_comes_what_is_published_from_then_on() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        assert await tail.beginning(bus, FEED, tail.NOW) is None
        await feed.create()
        assert await tail.beginning(bus, FEED, tail.NOW) is None
        await feed.batch([Txn(10, {("a", "b"): [1]})])
        assert await tail.beginning(bus, FEED, tail.NOW) == 10
        await feed.watermark(15)
        now = await tail.beginning(bus, FEED, tail.NOW)
        assert now == 15
        await feed.batch([Txn(20, {("a", "b"): [2]})])
        assert await tailed(bus, now) == [20]
        assert await tailed(bus, await tail.beginning(bus, FEED, tail.NOW)) == []

    run(main, 1)


def test_after_a_commit_ts_or_all() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        assert await tail.beginning(bus, FEED, "-1") is None
        assert [await tail.beginning(bus, FEED, after) for after in ("0", "77")] == [0, 77]
        for after in ("", "then", "-2", "1.5", "9" * 19):
            with pytest.raises(BadInput):
                await tail.beginning(bus, FEED, after)

    run(main, 1)


@pytest.mark.parametrize("buffer_bytes", [1, 1 << 20])
def test_what_it_shows(monkeypatch: pytest.MonkeyPatch, buffer_bytes: int) -> None:
    """A large transaction is read in parts, and looks the same."""
    monkeypatch.setattr(tail, "BUFFER_BYTES", buffer_bytes)

    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        await feed.create()
        await feed.batch([Txn(9, ddl=(("a", "b"),))])
        rows = {("a", "b"): list(range(30)), ("a", "c"): [40]}
        await feed.batch([Txn(10, rows), Txn(11, {("a", "c"): [41]})], chunk=3, give_up=True)
        await feed.watermark(15)
        found = await shown(bus, watermarks=True)
        assert found[0]["ddl"] == "create table"
        told = [(one["table"], one["after"]["n"]) for one in found[1:-1]]
        assert told == [*(("a.b", n) for n in range(30)), ("a.c", 40), ("a.c", 41)]
        assert found[-1] == {"resolved_ts": 15}
        for table in ("c", "a.c"):
            assert [line["after"]["n"] for line in (await shown(bus, table=table))[1:]] == [40, 41]

    run(main, 1)
