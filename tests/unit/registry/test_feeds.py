"""What the Pumps say of feeds, and how the registry stops waiting for one."""

from __future__ import annotations

import asyncio

import pytest

from tidelog.errors import BadInput, Refused, Unavailable
from tidelog.feeds import Feed, Feeds
from tidelog.messages import (
    APPLIER,
    DRAINER,
    DRAINER_CONSUMER,
    PUMP,
    Consumer,
    Heartbeat,
    NodeStatus,
)
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX
from tidelog_registry.consumers.consumers import Consumers, Kept


def beat(node: str, epoch: int = 1, **feeds: int) -> Heartbeat:
    return Heartbeat(NodeStatus(node, kind=PUMP, epoch=epoch), feeds=feeds)


def test_what_a_pump_names_no_more_it_has_forgotten() -> None:
    known = Consumers(Kept(feeds={"typo": 3, "main": 9}))
    for pump in ("p1", "p2"):
        known.announced(beat(pump, typo=5, main=20))
    assert known.safe_point() == 5
    known.announced(beat("p1", main=20))
    assert known.safe_point() == 5
    known.announced(beat("p2", main=20))
    assert known.feeds == {"main": 20}
    assert known.safe_point() == 20
    assert known.kept() == Kept(feeds={"main": 20})


def test_a_pump_that_was_started_again_without_its_file_has_not_said_so() -> None:
    known = Consumers(Kept())
    known.announced(beat("p1", 1, main=20))
    known.announced(beat("p1", 2))
    known.announced(beat("p1", 2))
    assert known.feeds == {"main": 20}


def test_a_feed_that_is_kept_is_removed_by_hand_and_its_consumers_are_not() -> None:
    known = Consumers(Kept([Consumer("a1", "main", 50)], {"typo": 3, "main": 9}))
    assert known.safe_point() == 3
    assert known.remove("typo", "")
    assert known.remove("main", "")
    assert known.feeds == {}
    assert known.safe_point() == 50
    assert known.remove("main", "a1")
    assert known.safe_point() == TS_MAX


def test_who_may_register_a_consumer_removes_no_node() -> None:
    """Not even until it announces itself again: the safe point would pass it by meanwhile."""
    known = Consumers(Kept())
    applier = NodeStatus("a1", kind=APPLIER, feed="main")
    known.announced(Heartbeat(applier, consumers=[Consumer("a1", "main", 50)]))
    known.announced(Heartbeat(NodeStatus("d1", kind=DRAINER, feed="main", resolvedTS=60)))
    known.put(Consumer("app", "main", 70))
    for name in ("a1", DRAINER_CONSUMER):
        for change in (
            lambda name=name: known.remove("main", name),
            lambda name=name: known.put(Consumer(name, "main", 99)),
        ):
            with pytest.raises(BadInput):
                change()
    assert known.safe_point() == 50
    assert known.remove("main", "app")
    assert not known.remove("main", "app")
    known.forget_reader(applier, last=True)
    assert known.safe_point() == 60
    known.put(Consumer("a1", "main", 55))
    assert known.remove("main", "a1")


def test_two_who_create_one_feed_at_once_agree_or_one_is_refused() -> None:
    async def main(world: World) -> None:
        one, other = (Feeds(world.ports(node).bus, "c") for node in ("n1", "n2"))
        assert await one.all() == []
        feed = Feed("main", 7)
        await asyncio.gather(one.create(feed), other.create(feed))
        assert await one.all() == [feed]
        asked = [one.create(Feed("next", 1)), other.create(Feed("next", 2))]
        ended = await asyncio.gather(*asked, return_exceptions=True)
        (refused,) = (end for end in ended if end is not None)
        assert isinstance(refused, Refused)
        assert "tidelog feed show next" in refused.hint
        assert [feed.name for feed in await other.all()] == ["main", "next"]

    run(main, 3)


def test_a_feed_of_which_no_answer_came_may_be_there_or_not() -> None:
    """An append's answer is lost, before it happens or after."""
    seen: set[tuple[bool, bool]] = set()
    for seed in range(40):

        async def main(world: World) -> None:
            feeds = Feeds(world.ports("n").bus, "c")
            await feeds.create(Feed("first"))
            world.net.unknown = 0.5
            asked = [feeds.create(Feed("second", 5))]
            (ended,) = await asyncio.gather(*asked, return_exceptions=True)
            world.net.unknown = 0.0
            there = await feeds.get("second") == Feed("second", 5)
            assert ended is None or isinstance(ended, Unavailable)
            assert there or ended is not None
            seen.add((ended is None, there))

        run(main, seed)
    assert seen >= {(True, True), (False, False)}
