"""A subscription that the Pumps wait for, as `tidelog.subscribe` makes it, beside a registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import tidelog
from tests.unit.subscriber.feed import FEED, FeedWriter, Txn
from tidelog.ask_registry import nodes
from tidelog.messages import Consumer
from tidelog.ports import Bus
from tidelog.real.bus import NatsBus
from tidelog.sim.world import World, run
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
