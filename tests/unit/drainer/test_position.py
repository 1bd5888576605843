"""Where a feed begins or goes on when its stream does not tell, asked of the real registry."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.unit.registry.nodes import CLUSTER, build, drainer, nodes, pump
from tidelog import changes, subjects
from tidelog.changes import MarkedTxn, Marker
from tidelog.errors import PositionUnknown, Refused, Unavailable
from tidelog.feeds import NOW, Feed, Feeds, beginning
from tidelog.messages import Consumer, encode
from tidelog.oracle import RegistryOracle
from tidelog.ports import Outgoing, StreamConfig
from tidelog.sim import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.publish.lives import Epoch
from tidelog_drainer.publish.position import NotOurs, Start, find_start
from tidelog_registry import service
from tidelog_registry.config import RegistryConfig

FEED = "f"
REGISTRY = RegistryConfig(cluster=CLUSTER)
CONFIG = DrainerConfig(cluster=CLUSTER, node_id="d2", feed=FEED)


async def start_of(world: World, config: DrainerConfig = CONFIG) -> Start:
    return await find_start(config, world.ports("d2"), Epoch(1, "d2"))


async def published(world: World, *readers: Consumer, published_ts: int = 1000) -> None:
    """A feed that a Drainer published and pulled up to 900; its stream is gone."""
    world.node("r").start(service.build, REGISTRY)
    d, p = drainer("d1", FEED), pump("p1")
    d.resolved_ts, d.consumers, p.feeds = published_ts, list(readers), {FEED: 900}
    world.node("d1").start(build, d)
    world.node("p1").start(build, p)
    await world.until(lambda: bool(p.told and d.told), 10, "both are registered")
    await world.sleep(8)
    found = await nodes(world.ports().bus)
    assert {c.name for c in found.consumers} == {"drainer", *(c.name for c in readers)}


def test_without_readers_a_lost_stream_asks_instead_of_going_on_where_the_drainer_was() -> None:
    async def main(world: World) -> None:
        await published(world)
        with pytest.raises(PositionUnknown):
            await start_of(world)
        assert await world.ports().bus.stream_state(subjects.changes_stream(FEED)) is None

    run(main, 1)


@pytest.mark.parametrize(("published_ts", "expected"), [(1000, 900), (850, 850)])
def test_an_accepted_loss_is_no_larger_than_what_was_published(
    published_ts: int, expected: int
) -> None:
    async def main(world: World) -> None:
        await published(world, published_ts=published_ts)
        accepting = msgspec.structs.replace(CONFIG, accept_loss=True)
        assert (await start_of(world, accepting)).commit_ts == expected

    run(main, 1)


def test_the_lowest_reader_says_from_where_it_is_filled() -> None:
    async def main(world: World) -> None:
        await published(world, Consumer("a1", FEED, 400), Consumer("a2", FEED, 300))
        start = await start_of(world)
        assert (start.commit_ts, start.prev_commit_ts, start.fresh) == (300, 300, True)

    run(main, 1)


@pytest.mark.parametrize(
    ("mark", "body"),
    [
        (subjects.changes_txn, b'{"type":"io.nats.jetstream.api.v1.account_info_response"}'),
        (subjects.changes_txn, b'{"attempt":"a","messages":0,"prev_commit_ts":1,"txns":[]}'),
        (subjects.changes_txn, b"\xff"),
        (subjects.changes_watermark, b""),
    ],
)
def test_a_mark_that_no_drainer_wrote_stops_the_feed_and_says_what_to_do(
    mark: Callable[[str], str], body: bytes
) -> None:
    async def main(world: World) -> None:
        bus, stream = world.ports().bus, subjects.changes_stream(FEED)
        await bus.stream_create(StreamConfig(stream, (f"changes.{FEED}.>",)))
        await bus.append(stream, [Outgoing(mark(FEED), body)])
        with pytest.raises(NotOurs, match="no Drainer wrote message 1") as stopped:
            await start_of(world)
        assert stream in stopped.value.hint

    run(main, 1)


@pytest.mark.parametrize(
    ("subject", "body", "headers"),
    [
        (f"changes.{FEED}.txn", b"{}", {changes.H_EPOCH: "first:drainer"}),
        (f"changes.{FEED}.row.d.t", b"", {changes.H_EPOCH: "9" * 30}),
        (f"changes.{FEED}.watermark", b'{"resolved_ts":-5,"prev_commit_ts":0}', {}),
        (
            f"changes.{FEED}.watermark",
            b'{"resolved_ts":9223372036854775808,"prev_commit_ts":0}',
            {},
        ),
        (f"changes.{FEED}.ddl.d.t", b"{}", {}),
        (f"changes.{FEED}.ddl.d.t", b"", {changes.H_SCHEMA_VERSION: "new"}),
        (f"changes.{FEED}.ddl.d.t", b"", {changes.H_SCHEMA_VERSION: "5", changes.H_EARLY: "4,x"}),
        (f"changes.{FEED}.ddl.d.t", b"", {changes.H_SCHEMA_VERSION: "5", changes.H_PASSED: "x"}),
    ],
)
def test_numbers_that_no_drainer_wrote_stop_it_too(
    subject: str, body: bytes, headers: dict[str, str]
) -> None:
    async def main(world: World) -> None:
        bus, stream = world.ports().bus, subjects.changes_stream(FEED)
        await bus.stream_create(StreamConfig(stream, (f"changes.{FEED}.>",)))
        await bus.append(stream, [Outgoing(subject, body, headers)])
        with pytest.raises(NotOurs, match="no Drainer wrote message 1"):
            await start_of(world)

    run(main, 1)


def test_rows_without_their_marker_are_no_position() -> None:
    """What a batch of several parts left when its Drainer died in the middle of it."""

    async def main(world: World) -> None:
        bus, stream = world.ports().bus, subjects.changes_stream(FEED)
        await bus.stream_create(StreamConfig(stream, (f"changes.{FEED}.>",)))
        marker = Marker("a", 0, 100, [MarkedTxn(200, 150, 0)])
        await bus.append(stream, [Outgoing(subjects.changes_txn(FEED), encode(marker), last(200))])
        await bus.append(stream, [Outgoing(f"changes.{FEED}.row.d.t", b"{}", last(300))])
        start = await start_of(world)
        assert (start.commit_ts, start.prev_commit_ts, start.fresh) == (200, 200, False)

    run(main, 1)


def last(commit_ts: int) -> dict[str, str]:
    return {changes.H_LAST_TS: str(commit_ts)}


async def create(world: World, initial: int) -> None:
    bus = world.ports().bus
    await Feeds(bus, CLUSTER).create(Feed(FEED, await beginning(bus, CLUSTER, initial), 1))


@pytest.mark.parametrize("initial", [0, 500])
def test_a_new_feeds_first_mark_says_that_nothing_was_before(initial: int) -> None:
    async def main(world: World) -> None:
        world.node("r").start(service.build, REGISTRY)
        await world.sleep(4)
        await create(world, initial)
        start = await start_of(world)
        assert (start.commit_ts, start.prev_commit_ts, start.fresh) == (initial, 0, True)

    run(main, 1)


def test_now_is_what_the_oracle_says_when_the_feed_is_created() -> None:
    """Not what any clock says, nor what the oracle says when its Drainer starts."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("d2", skew_ms=-50_000)
        world.node("r").start(service.build, REGISTRY)
        await world.sleep(8)
        before = await RegistryOracle(bus, CLUSTER).fresh()
        await create(world, NOW)
        after = await RegistryOracle(bus, CLUSTER).fresh()
        await world.sleep(60)
        start = await start_of(world)
        assert before < start.commit_ts < after
        assert start.prev_commit_ts == 0
        assert (await start_of(world)).commit_ts == start.commit_ts

    run(main, 1)


def test_now_under_follow_is_the_newest_that_a_pump_has_seen() -> None:
    async def main(world: World) -> None:
        world.node("r").start(service.build, msgspec.structs.replace(REGISTRY, oracle="follow"))
        await world.sleep(4)
        with pytest.raises(Unavailable):
            await create(world, NOW)
        pumps = [pump("p1", high_ts=800), pump("p2", high_ts=700)]
        for p in pumps:
            world.node(p.node).start(build, p)
        await world.until(lambda: all(p.told for p in pumps), 20, "both are registered")
        await create(world, NOW)
        start = await start_of(world)
        assert (start.commit_ts, start.prev_commit_ts) == (800, 0)

    run(main, 1)


def test_a_feed_is_created_once() -> None:
    async def main(world: World) -> None:
        feeds = Feeds(world.ports().bus, CLUSTER)
        assert (await feeds.get(FEED), await feeds.all()) == (None, [])
        await feeds.create(Feed(FEED, 5, 1))
        await feeds.create(Feed(FEED, 5, 1))
        with pytest.raises(Refused):
            await feeds.create(Feed(FEED, 7, 2))
        await feeds.ensure(Feed(FEED, 7, 2))
        assert await feeds.all() == [Feed(FEED, 5, 1)]
        await feeds.remove(FEED)
        await feeds.create(Feed(FEED, 7, 2))
        assert await feeds.get(FEED) == Feed(FEED, 7, 2)

    run(main, 1)
