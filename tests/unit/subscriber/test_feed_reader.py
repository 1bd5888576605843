"""What every reader of a feed has in common."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.subscriber.feed import FEED, STREAM, FeedWriter, Txn
from tidelog.change_reader import ChangeReader, Gap
from tidelog.changes import RowMessage
from tidelog.errors import Purged
from tidelog.feed_reader import MISSING_S
from tidelog.ports import Message
from tidelog.sim.world import World, run
from tidelog.subscriber.subscription import of_rows
from tidelog.subscriber.tables import Tables


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


@pytest.mark.parametrize("empty", [False, True])
def test_rows_from_behind_a_gap_are_not_handed_over(empty: bool) -> None:
    """Not before the gap is told: they are newer than what was missed. Also where the stream is
    still empty when it is opened, or holds no mark yet."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus, prev=100)
        await feed.create()
        messages = feed.messages([Txn(110, {("a", "b"): [1]})])
        subscription = of_rows(bus, FEED, 50, Tables())
        reading = asyncio.ensure_future(subscription.next())
        if empty:
            await asyncio.sleep(3)
        await bus.append(STREAM, messages[:-1])
        await asyncio.sleep(3)
        assert not reading.done()
        await bus.append(STREAM, messages[-1:])
        with pytest.raises(Gap):
            await reading

    run(main, 1)


def test_a_slow_way_to_the_server_keeps_nobody_from_the_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mark that does not come in time is not one that is not there."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        await feed.create()
        for commit_ts in (10, 20, 30):
            await feed.batch([Txn(commit_ts, {("a", "b"): [commit_ts]})])
        first_mark = ChangeReader._first_mark

        async def slow(
            reader: ChangeReader, sequence: int, max_wait_s: float = MISSING_S
        ) -> Message | None:
            found = await first_mark(reader, sequence, max_wait_s)
            return found if max_wait_s > MISSING_S else None

        monkeypatch.setattr(ChangeReader, "_first_mark", slow)
        for after, left in ((0, [10, 20, 30]), (20, [30])):
            reader = ChangeReader(bus, FEED, after)
            assert [change.commit_ts for change in await reader.next(5.0)] == left
            await reader.close()

    run(main, 1)


@pytest.mark.parametrize("seed", range(4))
def test_who_begins_at_the_beginning_of_a_full_stream_begins_where_it_then_is(seed: int) -> None:
    """It is written to all the time: whatever its first message is, it is gone a moment later."""

    async def main(world: World) -> None:
        feed = FeedWriter(world.ports("writer").bus)
        await feed.create(max_bytes=20_000)
        for _ in range(150):
            await feed.batch([Txn(feed.prev + 10, {("a", "b"): [0]})])

        async def goes_on() -> None:
            while True:
                await feed.batch([Txn(feed.prev + 10, {("a", "b"): [0]})])

        writing = asyncio.get_running_loop().create_task(goes_on())
        bus = world.ports().bus
        reader = ChangeReader(bus, FEED, None)
        async with asyncio.timeout(10):
            while reader.position is None:
                await reader.next()
        state = await bus.stream_state(STREAM)
        assert state is not None
        assert feed.prev - reader.position < 10 * (state.last_seq - state.first_seq), (
            "its beginning"
        )
        writing.cancel()
        await reader.close()

    run(main, seed)


def test_who_has_rows_of_the_beginning_is_told_that_the_stream_went_on_without_it() -> None:
    """Before the first mark: it has no position yet, and something in its hands."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        await feed.create(max_bytes=20_000)
        await bus.append(STREAM, feed.messages([Txn(10, {("a", "b"): [1, 2]})])[:-1])
        subscription = of_rows(bus, FEED, None, Tables())
        assert isinstance(await subscription.next(), RowMessage)
        for _ in range(150):
            await feed.batch([Txn(feed.prev + 10, {("a", "b"): [0]})])
        with pytest.raises(Purged):
            await subscription.next()

    run(main, 1)
