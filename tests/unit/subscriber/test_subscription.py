"""A subscription: each transaction once, whole, of the wanted tables, whatever becomes of the
stream; gaps seen in tables that nobody asked for; large ones in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.subscriber.feed import FEED, STREAM, FeedWriter, Table, Txn
from tidelog import changes, subjects
from tidelog.changes import DdlMessage, RowMessage
from tidelog.errors import DeadlineExceeded, Purged, Unavailable, UnparsablePayload
from tidelog.feed_reader import Gap, newest_mark
from tidelog.ports import Bus, Outgoing
from tidelog.sim.world import World, run
from tidelog.skipped import Skipped
from tidelog.subscriber.errors import MISSED, PartsLost, TooLarge
from tidelog.subscriber.positions import Position
from tidelog.subscriber.subscription import Subscription, of_rows, of_transactions
from tidelog.subscriber.tables import Tables
from tidelog.subscriber.transaction import Transaction

A, B, C = ("app", "a"), ("app", "b.c"), ("web", "a")
FILTERS = [(), ("app.a",), ("*.a",), ("app.*", "*.a"), ("app.`b.c`", "web.a"), ("no.such",)]
BIG = 1 << 20

Seen = list[tuple[int, dict[Table, list[int]], int]]


def in_world(work: Callable[[World, Bus, FeedWriter], Awaitable[None]], **writer: int) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus, **writer)
        await feed.create()
        await work(world, bus, feed)

    run(main, 1)


def transactions(
    bus: Bus, after: int | None = 0, patterns: tuple[str, ...] = (), buffer_bytes: int = BIG
) -> Subscription[Transaction]:
    return of_transactions(bus, FEED, after, Tables(patterns), buffer_bytes)


async def contents(txn: Transaction) -> dict[Table, list[int]]:
    found: dict[Table, list[int]] = {}
    async for part in txn.parts():
        for rows in part:
            assert {event.commit_ts for event in rows.events} == {txn.commit_ts}
            numbers = [event.after["n"] for event in rows.events if event.after is not None]
            found.setdefault((rows.db, rows.table), []).extend(numbers)
    return found


async def take(subscription: Subscription[Transaction], upto: int) -> Seen:
    """What it yields until everything up to `upto` is done."""
    seen: Seen = []

    async def iterate() -> None:
        async for txn in subscription:
            seen.append((txn.commit_ts, await contents(txn), len(txn.ddls)))

    iterating = asyncio.ensure_future(iterate())
    reaching = asyncio.ensure_future(subscription.reached(upto, 60))
    await asyncio.wait((iterating, reaching), return_when=asyncio.FIRST_COMPLETED)
    if iterating.done():
        iterating.result()
    await reaching
    iterating.cancel()
    return seen


def wanted(txns: list[Txn], patterns: tuple[str, ...]) -> Seen:
    tables = Tables(patterns)
    out: Seen = []
    for txn in txns:
        rows = {t: n for t, n in txn.rows.items() if n and tables.take(f"{t[0]}.{LABEL[t]}")}
        ddls = int(any(tables.take(f"{db}.{LABEL[db, name]}") for db, name in txn.ddl))
        if rows or ddls:
            out.append((txn.commit_ts, rows, ddls))
    return out


LABEL = {A: "a", B: "b=2Ec", C: "a"}
numbers = st.lists(st.integers(0, 9), max_size=12)
bodies = st.one_of(
    st.dictionaries(st.sampled_from((A, B, C)), numbers.filter(bool), min_size=1),
    st.sampled_from(((A,), (B, C), (C,))),
)


@settings(max_examples=60, deadline=None)
@example(  # a message of one table reaches over a transaction that has no row in it
    bodies=[{A: [0], B: [0]}, {A: [0]}, {A: [0], B: [0]}],
    cuts=set(),
    cuts_again=set(),
    given_up=set(),
    read=0,
    again_from=0,
    patterns=(),
    buffer_bytes=1,
    message_bytes=400,
)
@given(
    bodies=st.lists(bodies, min_size=1, max_size=9),
    cuts=st.sets(st.integers(0, 8)),
    cuts_again=st.sets(st.integers(0, 8)),
    given_up=st.sets(st.integers(0, 8)),
    read=st.integers(0, 9),
    again_from=st.integers(0, 9),
    patterns=st.sampled_from(FILTERS),
    buffer_bytes=st.sampled_from((1, 2500, BIG)),
    message_bytes=st.sampled_from((90, 400)),
)
def test_each_transaction_once(
    bodies: list[dict[Table, list[int]] | tuple[Table, ...]],
    cuts: set[int],
    cuts_again: set[int],
    given_up: set[int],
    read: int,
    again_from: int,
    patterns: tuple[str, ...],
    buffer_bytes: int,
    message_bytes: int,
) -> None:
    """A part is published and read; then the stream is lost and filled again, cut otherwise, from
    an earlier position, with the rest behind it."""
    txns = [
        Txn(10 * i, body) if isinstance(body, dict) else Txn(10 * i, ddl=body)
        for i, body in enumerate(bodies, 1)
    ]
    read = min(read, len(txns))
    again_from = min(again_from, read)

    async def publish(feed: FeedWriter, part: list[Txn], cuts: set[int]) -> None:
        batch: list[Txn] = []
        for at, txn in enumerate(part):
            batch.append(txn)
            alone = txn.ddl or (at + 1 < len(part) and part[at + 1].ddl)
            if alone or at in cuts or at + 1 == len(part):
                await feed.batch(batch, chunk=2, give_up=at in given_up)
                batch = []
                if at in cuts:
                    await feed.watermark(txn.commit_ts + 1)

    async def work(world: World, bus: Bus, feed: FeedWriter) -> None:
        subscription = transactions(bus, 0, patterns, buffer_bytes)
        await publish(feed, txns[:read], cuts)
        await feed.watermark(10 * read + 5)
        seen = await take(subscription, 10 * read + 5)
        await bus.stream_delete(STREAM)
        again = FeedWriter(bus, prev=10 * again_from, message_bytes=message_bytes)
        await again.create()
        await publish(again, txns[again_from:], cuts_again)
        await again.watermark(10 * len(txns) + 7)
        seen += await take(subscription, 10 * len(txns) + 7)
        assert seen == wanted(txns, patterns)
        assert subscription.position == Position(FEED, 10 * len(txns) + 7)
        # Another one goes on after any of them, within a batch too.
        for at in range(0, len(txns), 3):
            rest = transactions(bus, max(10 * again_from, 10 * at), patterns, buffer_bytes)
            left = wanted(txns[max(again_from, at) :], patterns)
            assert await take(rest, 10 * len(txns) + 7) == left
            await rest.close()
        await subscription.close()

    in_world(work, message_bytes=message_bytes)


def test_a_gap_is_seen_through_a_filter() -> None:
    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        await feed.batch([Txn(10, {C: [1]})])
        subscription = transactions(bus, 0, ("app.a",))
        assert await take(subscription, 10) == []
        feed.prev = 30
        await feed.batch([Txn(40, {C: [1]})])
        reading = asyncio.ensure_future(subscription.reached(40))
        await asyncio.sleep(0)
        with pytest.raises(Gap) as caught:
            await anext(subscription)
        assert (caught.value.position, caught.value.hint) == (10, MISSED)
        with pytest.raises(Gap):
            await reading
        with pytest.raises(Gap):  # and it goes on for nobody
            await anext(subscription)
        assert subscription.watermark == 10

    in_world(work)


@pytest.mark.parametrize("transactional", [True, False])
def test_a_batch_whose_wanted_beginning_was_discarded_is_a_gap(transactional: bool) -> None:
    """Also where what is left of it is all in tables that nobody asked for."""

    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        rows = {A: [1], C: list(range(200))}
        await feed.create()
        whole = feed.messages([Txn(10, rows)])
        for message in whole[1:]:
            await bus.append(STREAM, [message])
        for patterns in ((), ("app.a",), ("web.a",)):
            tables = Tables(patterns)
            by_txns, by_rows = (
                of_transactions(bus, FEED, 0, tables, BIG),
                of_rows(bus, FEED, 0, tables),
            )
            with pytest.raises(Gap):
                await (by_txns.next() if transactional else by_rows.next())
        late = transactions(bus, None)
        assert await take(late, 10) == []
        late_rows = of_rows(bus, FEED, None, Tables())
        iterating = asyncio.ensure_future(late_rows.next())
        await late_rows.reached(10, 60)
        assert not iterating.done()
        iterating.cancel()

    in_world(work)


def test_a_slow_reader_of_one_table_is_told_that_the_stream_went_on_without_it() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        await feed.create(max_bytes=6000)
        subscription = transactions(bus, 0, ("app.a",))
        await feed.batch([Txn(10, {A: [1]})])
        assert len(await take(subscription, 10)) == 1
        for at in range(2, 60):
            await feed.batch([Txn(10 * at, {C: [at]})])
        with pytest.raises((Gap, Purged)) as caught:
            await anext(subscription)
        assert caught.value.hint == MISSED

    run(main, 3)


def test_what_is_done_is_what_the_application_came_back_from() -> None:
    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        subscription = transactions(bus)
        assert (subscription.watermark, subscription.position) == (0, Position(FEED, 0))
        await feed.batch([Txn(10, {A: [1]}), Txn(20, {A: [2]})])
        first = await anext(subscription)
        assert (first.commit_ts, first.position) == (10, Position(FEED, 10))
        assert subscription.watermark == 0
        with pytest.raises(DeadlineExceeded):
            await subscription.reached(10, 1.0)
        waiting = asyncio.ensure_future(subscription.reached(10))
        assert (await anext(subscription)).commit_ts == 20
        await waiting
        assert subscription.watermark == 10
        waiting = asyncio.ensure_future(subscription.reached(30))
        iterating = asyncio.ensure_future(anext(subscription))
        await feed.watermark(35)
        await waiting
        assert subscription.watermark == 35
        iterating.cancel()
        waiting = asyncio.ensure_future(subscription.reached(99))
        await asyncio.sleep(0)
        await subscription.close()
        with pytest.raises(Unavailable):
            await waiting

    in_world(work)


def test_the_server_s_restarts_are_waited_out() -> None:
    async def work(world: World, bus: Bus, feed: FeedWriter) -> None:
        subscription = transactions(bus)
        await feed.batch([Txn(10, {A: [1]})])
        taken = asyncio.ensure_future(take(subscription, 20))
        await asyncio.sleep(1)
        world.nats.stop()
        await asyncio.sleep(3)
        world.nats.start()
        await feed.batch([Txn(20, {A: [2]})])
        assert [ts for ts, _, _ in await taken] == [10, 20]

    in_world(work)


def test_what_was_skipped_upstream_is_told_whatever_the_tables() -> None:
    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        lost = Skipped("client", "why", 3, 9, 4)
        await feed.batch([Txn(10, skipped=lost)])
        for patterns in ((), ("app.a",)):
            told = await anext(transactions(bus, 0, patterns))
            assert told.skipped == lost
            assert not told.rows
            assert await anext(of_rows(bus, FEED, 0, Tables(patterns))) == lost

    in_world(work)


def test_rows_come_before_their_transaction_is_complete() -> None:
    async def work(_world: World, bus: Bus, feed: FeedWriter) -> None:
        await feed.batch([Txn(5, ddl=(A,))])
        messages = feed.messages([Txn(10, {A: list(range(9)), C: [1]})])
        await bus.append(STREAM, messages[:2])
        subscription = of_rows(bus, FEED, 0, Tables(("app.a",)))
        ddl = await anext(subscription)
        assert isinstance(ddl, DdlMessage)
        rows = await anext(subscription)
        assert isinstance(rows, RowMessage)
        assert rows.events[0].after == {"n": 0, "t": ""}
        assert subscription.watermark == 5
        await bus.append(STREAM, messages[2:])
        events = list(rows.events)
        async with asyncio.timeout(30):
            while len(events) < 9:
                more = await anext(subscription)
                assert isinstance(more, RowMessage)
                events += more.events
        assert [event.after["n"] for event in events if event.after] == list(range(9))

    in_world(work)


def test_a_large_transaction_is_not_held() -> None:
    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        await feed.batch([Txn(10, {A: [1, 2], B: list(range(300))})], chunk=7)
        subscription = transactions(bus, 0, (), 2000)
        txn = await anext(subscription)
        assert txn.large
        assert txn.tables == {"app.a": 2, "app.b=2Ec": 300}
        with pytest.raises(TooLarge):
            len(txn.rows)
        assert await contents(txn) == {A: [1, 2], B: list(range(300))}
        assert await contents(txn) == {A: [1, 2], B: list(range(300))}, "as often as one likes"

    in_world(work)


def test_a_server_that_is_away_while_a_large_transaction_is_read_is_waited_for() -> None:
    """Before the first part, and between two: none twice, none left out."""

    async def work(world: World, bus: Bus, feed: FeedWriter) -> None:
        await feed.batch([Txn(10, {A: list(range(3000))})])
        large = await anext(transactions(bus, 0, (), 2000))
        world.nats.stop()
        reading = asyncio.ensure_future(contents(large))
        await world.sleep(10)
        assert not reading.done()
        world.nats.start()
        assert (await reading)[A] == list(range(3000))
        found = list[int]()
        async for part in large.parts():
            for rows in part:
                found += [event.after["n"] for event in rows.events if event.after is not None]
            if not found[1000:]:
                world.nats.stop()
                world.loop.call_later(3, world.nats.start)
        assert found == list(range(3000))

    in_world(work)


def test_the_stream_is_lost_while_a_large_transaction_is_read() -> None:
    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        txn = Txn(10, {A: list(range(3000))})
        await feed.batch([txn])
        subscription = transactions(bus, 0, (), 2000)
        large = await anext(subscription)
        await bus.stream_delete(STREAM)
        with pytest.raises(PartsLost):
            await contents(large)
        again = FeedWriter(bus)
        await again.create()
        await again.batch([Txn(5, {A: [1]})])
        await again.batch([txn])
        with pytest.raises(PartsLost):
            await contents(large)
        # From the position before it, it is there again.
        once_more = await anext(transactions(bus, 5, (), 2000))
        assert (await contents(once_more))[A] == list(range(3000))

    in_world(work)


def test_it_can_be_read_up_to_a_commit_ts_and_further() -> None:
    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        await feed.batch([Txn(10, {A: [1]}), Txn(20, {A: [2]}), Txn(30, {A: [3]})])
        await feed.watermark(40)
        subscription = transactions(bus)
        for upto, found in ((25, [10, 20]), (29, []), (35, [30]), (40, [])):
            assert [txn.commit_ts async for txn in subscription.until(upto)] == found
            assert subscription.watermark >= upto
        assert subscription.position == Position(FEED, 40)

    in_world(work)


def test_it_goes_on_within_a_batch() -> None:
    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        txns = [Txn(10 * at, {A: [at], C: [at]}) for at in range(1, 6)]
        await feed.batch(txns)
        await feed.watermark(60)
        for at in range(6):
            for buffer_bytes in (1, BIG):
                rest = transactions(bus, 10 * at, ("app.a",), buffer_bytes)
                assert await take(rest, 60) == wanted(txns[at:], ("app.a",))

    in_world(work)


def test_fewer_rows_than_the_marker_says_are_a_gap() -> None:
    """Somebody deleted a message from within the stream: of a table that is wanted, or not."""

    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        messages = feed.messages([Txn(10, {A: list(range(40)), C: [1]})])
        lost, elsewhere = messages[1], messages[-2]
        assert (lost.subject, elsewhere.subject) == ("changes.f.row.app.a", "changes.f.row.web.a")
        headers = dict(elsewhere.headers) | {changes.H_INDEX: "1"}
        messages[1] = msgspec.structs.replace(elsewhere, headers=headers)
        await bus.append(STREAM, messages)
        for patterns in (("app.a",), ("*.a",)):
            with pytest.raises(Gap):
                await transactions(bus, 0, patterns).next()
        assert await take(transactions(bus, 0, ("no.such",)), 10) == []

    in_world(work)


def test_what_an_attempt_that_was_given_up_left_is_not_taken_for_the_next_one_s() -> None:
    """The next one is cut elsewhere, and has no row of the table."""

    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        first, second = Txn(10, {C: [1]}), Txn(20, {A: [2]})
        await bus.append(STREAM, feed.messages([first, second])[:-1])
        await feed.batch([first])
        await feed.batch([second])
        subscription = transactions(bus, 0, ("app.a",))
        assert await take(subscription, 20) == [(20, {A: [2]}, 0)]

    in_world(work)


def test_rows_are_not_told_again_when_the_stream_is_filled_again() -> None:
    async def work(_: World, bus: Bus, feed: FeedWriter) -> None:
        txns = [Txn(10, {A: [1]}), Txn(20, ddl=(A,)), Txn(30, {C: [3]})]
        for txn in txns:
            await feed.batch([txn])
        subscription = of_rows(bus, FEED, 0, Tables())
        met = [item async for item in subscription.until(30)]
        await bus.stream_delete(STREAM)
        again = FeedWriter(bus)
        await again.create()
        for part in ([txns[0]], [txns[1]], [txns[2], Txn(40, {A: [4]})]):
            await again.batch(part)
        met += [item async for item in subscription.until(40)]
        assert [type(item) for item in met] == [RowMessage, DdlMessage, RowMessage, RowMessage]
        rows = [item for item in met if isinstance(item, RowMessage)]
        assert [[e.commit_ts for e in item.events] for item in rows] == [[10], [30], [40]]

    in_world(work)


def test_many_small_transactions_are_no_large_one() -> None:
    """Each would be read from the stream once more, with all the others of its batch."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        await feed.create()
        await feed.batch([Txn(ts, {("app", "a"): [ts]}) for ts in range(10, 60)])
        await feed.batch([Txn(60, {("app", "a"): list(range(50))})])
        subscription = of_transactions(bus, FEED, 0, Tables(), 1000)
        found = [txn async for txn in subscription.until(60)]
        assert [txn.commit_ts for txn in found] == list(range(10, 61))
        assert [txn.large for txn in found] == [False] * 50 + [True]
        await subscription.close()

    run(main, 1)


def test_a_mark_that_no_drainer_wrote_is_named_where_a_position_is_looked_for() -> None:
    async def work(world: World, bus: Bus, feed: FeedWriter) -> None:
        headers = {changes.H_LAST_TS: "c=x"}
        subject = subjects.changes_watermark(FEED)
        await bus.append(STREAM, [Outgoing(subject, b"{}", headers)])
        with pytest.raises(UnparsablePayload, match=f"{subject} at 1: a header has 'c=x'"):
            await transactions(bus, after=5).next()
        with pytest.raises(UnparsablePayload, match="a header has 'c=x'"):
            await newest_mark(bus, FEED)

    in_world(work)
