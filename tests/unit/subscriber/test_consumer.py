"""A subscription that the Pumps wait for, as `tidelog.subscribe` makes it, beside a registry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tidelog
from tests.unit.subscriber.feed import FEED, FeedWriter, Txn
from tidelog.ask_registry import nodes
from tidelog.errors import Forbidden
from tidelog.messages import Consumer
from tidelog.ports import Bus
from tidelog.real.bus import NatsBus
from tidelog.sim.bus import SimBus
from tidelog.sim.world import World, run
from tidelog.subscriber.registration import Registration
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

OLD = 5_000_000
"""Where an old feed's stream begins."""

Work = Callable[[World, FeedWriter], Awaitable[None]]


def beside_a_registry(monkeypatch: pytest.MonkeyPatch, work: Work) -> None:
    async def main(world: World) -> None:
        config = RegistryConfig(node_id="registry", cluster="default", data_dir="")
        world.node("registry").start(build_registry, config)

        async def connect(*_: Any, **__: Any) -> Bus:
            return world.ports("app").bus

        monkeypatch.setattr(NatsBus, "connect", connect)
        await world.sleep(15)
        feed = FeedWriter(world.ports("writer").bus, prev=OLD)
        await feed.create()
        await feed.batch([Txn(OLD + 10, {("app", "a"): [1]})])
        await work(world, feed)

    run(main, 1)


async def registered(world: World) -> list[Consumer]:
    return (await nodes(world.ports("asks").bus, "default", timeout_s=5)).consumers


def test_who_begins_at_the_beginning_needs_nothing_of_what_was_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the Pumps delete nothing until its first ack, and a stream that is lost is filled from
    where no Pump holds anything any more."""

    async def work(world: World, feed: FeedWriter) -> None:
        async with tidelog.subscribe(FEED, start="beginning", consumer="app") as changes:
            assert await registered(world) == [Consumer("app", FEED, OLD)]
            await feed.watermark(OLD + 20)
            assert [txn.commit_ts async for txn in changes.until(OLD + 20)] == [OLD + 10]

    beside_a_registry(monkeypatch, work)


def test_what_is_acked_after_its_end_does_not_register_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A loop that finishes what it has in hand: the Pumps would wait for it for ever."""

    async def work(world: World, _: FeedWriter) -> None:
        async with tidelog.subscribe(FEED, start=OLD, consumer="app") as changes:
            txn = await anext(changes)
            await changes.unregister()
            assert await registered(world) == []
            await changes.ack(txn.position)
        assert await registered(world) == []

    beside_a_registry(monkeypatch, work)


def test_many_that_register_and_ack_at_once_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the registry keeps waiting for its disk, which takes a moment."""

    async def work(world: World, _: FeedWriter) -> None:
        ports = world.ports("app")
        many = [
            Registration(ports.bus, ports.clock, "default", FEED, f"app{n}") for n in range(150)
        ]
        world.node("registry").disk.slow_s = 0.05
        await asyncio.gather(*(one.begin(5) for one in many))
        assert len(await registered(world)) == len(many)
        await asyncio.gather(*(one.move(10) for one in many))
        for one in many:
            await one.end()
        assert {consumer.commit_ts for consumer in await registered(world)} == {10}

    beside_a_registry(monkeypatch, work)


@pytest.mark.parametrize("cancelled", [False, True])
def test_the_connection_is_closed_whatever_its_end_meets(
    cancelled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that refuses the last ack, or a second Ctrl-C while nobody answers that."""
    closed = []

    async def end(_: Registration) -> None:
        if cancelled:
            raise asyncio.CancelledError
        raise Forbidden("it may not")

    async def close(_: SimBus) -> None:
        closed.append(1)

    async def work(_: World, __: FeedWriter) -> None:
        monkeypatch.setattr(Registration, "end", end)
        monkeypatch.setattr(SimBus, "close", close)
        with pytest.raises(asyncio.CancelledError if cancelled else Forbidden):
            async with tidelog.subscribe(FEED, start=OLD, consumer="app"):
                pass
        assert closed

    beside_a_registry(monkeypatch, work)
