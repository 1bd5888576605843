"""Where a subscription begins, and what the registry hears of one that is waited for."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

import tidelog
from tests.unit.subscriber.feed import FEED, FeedWriter, Txn
from tidelog import subjects
from tidelog.ask_registry import nodes
from tidelog.errors import BadInput, StreamMissing, Unavailable
from tidelog.messages import Consumer
from tidelog.sim.world import World, run
from tidelog.subscriber.positions import Position
from tidelog.subscriber.registration import TELL_S, Registration
from tidelog.subscriber.start import Start, begin, kept_after
from tidelog.subscriber.subscription import of_transactions
from tidelog.subscriber.tables import Tables
from tidelog.timestamps import compose
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

AT = datetime(2026, 11, 22, 10, 0, 0, 250_000, UTC)
AT_MS = 1795341600250


def test_where_it_begins() -> None:
    begins: list[tuple[Start, int | None]] = [
        (7, 7),
        (Position(FEED, 9), 9),
        ("beginning", None),
        (AT, compose(AT_MS) - 1),
        (AT.astimezone(timezone(timedelta(hours=8))), compose(AT_MS) - 1),
        (datetime(1960, 1, 1, tzinfo=UTC), 0),
    ]

    async def main(world: World) -> None:
        bus = world.ports().bus
        feed = FeedWriter(bus)
        with pytest.raises(StreamMissing, match="no stream"):
            await begin(bus, FEED, "now", 2.0)
        beginning = asyncio.ensure_future(begin(bus, FEED, "now", 60.0))
        await asyncio.sleep(1)
        await feed.create()
        await asyncio.sleep(1)
        assert not beginning.done()
        await feed.batch([Txn(10, {("a", "b"): [1]})])
        assert await beginning == 10
        await feed.watermark(15)
        assert await begin(bus, FEED, "now", 1.0) == 15
        for start, after in begins:
            assert await begin(bus, FEED, start, 1.0) == after
        assert await kept_after(bus, FEED, 1.0) == 0
        with pytest.raises(StreamMissing, match="no stream"):
            await kept_after(bus, "other", 1.0)
        late = datetime(9999, 1, 1, tzinfo=UTC)
        others = Position("other", 1), Position(FEED, -1)
        for wrong in (-1, 1 << 63, "tomorrow", *others, AT.replace(tzinfo=None), late):
            with pytest.raises(BadInput):
                await begin(bus, FEED, wrong, 1.0)

    run(main, 1)


def test_the_registry_hears_what_is_acked() -> None:
    async def main(world: World) -> None:
        world.node("registry").start(
            build_registry, RegistryConfig(node_id="registry", cluster="c", data_dir="")
        )
        ports = world.ports("app")
        bus = ports.bus

        async def registered() -> list[Consumer]:
            return (await nodes(bus, "c", timeout_s=5)).consumers

        await world.sleep(15)
        feed = FeedWriter(bus)
        await feed.create()
        registration = Registration(bus, ports.clock, "c", FEED, "app")
        await registration.begin(5)
        assert await registered() == [Consumer("app", FEED, 5)]
        subscription = of_transactions(bus, FEED, 5, Tables(), 1 << 20, registration)
        for commit_ts in (10, 11, 12):
            await subscription.ack(Position(FEED, commit_ts))
        assert await registered() == [Consumer("app", FEED, 5)], "not at each one"
        await world.sleep(TELL_S)
        await subscription.ack(Position(FEED, 13))
        assert await registered() == [Consumer("app", FEED, 13)]
        world.node("registry").kill()
        await world.sleep(TELL_S)
        await subscription.ack(Position(FEED, 14))  # told later
        world.node("registry").start(
            build_registry, RegistryConfig(node_id="registry", cluster="c", data_dir="")
        )
        await world.sleep(15)
        await subscription.ack(Position(FEED, 15))
        assert await registered() == [Consumer("app", FEED, 15)]
        await subscription.ack(Position(FEED, 16))
        await subscription.close()
        assert await registered() == [Consumer("app", FEED, 16)], "it stays"
        with pytest.raises(BadInput):
            await subscription.ack(Position("other", 17))
        again = of_transactions(bus, FEED, 5, Tables(), 1 << 20, registration)
        await again.unregister()
        await again.close()
        assert await registered() == []
        with pytest.raises(BadInput):
            await of_transactions(bus, FEED, 5, Tables(), 1).ack(Position(FEED, 17))

    run(main, 1)


def test_nobody_answers() -> None:
    async def nobody() -> None:
        async with tidelog.subscribe(nats_url="nats://127.0.0.1:9", timeout_s=0.3):
            raise AssertionError

    with pytest.raises(Unavailable):
        asyncio.run(nobody())
    with pytest.raises(BadInput):
        tidelog.subscribe(tables=["item"])
    with pytest.raises(BadInput):
        tidelog.subscribe(buffer_bytes=0)
    for name in ("", "Main", "main.>", "main=tail"):
        with pytest.raises(BadInput):
            tidelog.subscribe(name)
    assert subjects.changes_stream("main") == "CHANGES_MAIN"
