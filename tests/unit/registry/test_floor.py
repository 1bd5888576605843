"""Whose word moves the oracle, and how far."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.registry.nodes import CLUSTER, build, drainer, pump
from tests.unit.registry.rig import CONFIG, given_within, until_state
from tidelog import messages, subjects
from tidelog.messages import (
    APPLIER,
    DRAINER,
    DRAINER_CONSUMER,
    ONLINE,
    PUMP,
    Consumer,
    NodeStatus,
    SafePoint,
    SafePointRequest,
)
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX, compose
from tidelog_registry import service
from tidelog_registry.oracle.floor import floor_of

LIMIT = 1000


def test_pumps_and_drainers_move_it_and_readers_do_not() -> None:
    assert floor_of([], [], {}, LIMIT) == (0, {})
    statuses = [
        NodeStatus("p", kind=PUMP, highTS=40),
        NodeStatus("d", kind=DRAINER, resolvedTS=50),
        NodeStatus("a", kind=APPLIER, resolvedTS=900, maxCommitTS=900),
    ]
    readers = [Consumer("app", "f", 900), Consumer("far", "f", TS_MAX)]
    assert floor_of(statuses, readers, {}, LIMIT) == (50, {})
    published = Consumer(DRAINER_CONSUMER, "f", 60)
    assert floor_of(statuses, [published], {}, LIMIT) == (60, {})
    assert floor_of(statuses, [published], {"f": 70}, LIMIT) == (70, {})
    restarted = NodeStatus("q", kind=PUMP, logTS=80)
    assert floor_of([*statuses, restarted], [published], {"f": 70}, LIMIT) == (80, {})


def test_only_a_pumps_w_counts_above_the_limit() -> None:
    statuses = [
        NodeStatus("p", kind=PUMP, highTS=40, maxCommitTS=1001),
        NodeStatus("d", kind=DRAINER, resolvedTS=1002),
    ]
    published = Consumer(DRAINER_CONSUMER, "f", 1003)
    ts, far = floor_of(statuses, [published], {"f": 1000, "g": 1004}, LIMIT)
    assert ts == 1000
    assert far == {"pump p": 1001, "drainer d": 1002, "the Drainers of f": 1003, "feed g": 1004}
    above = msgspec.structs.replace(statuses[0], highTS=5000, maxCommitTS=0)
    assert floor_of([above], [], {}, LIMIT) == (5000, {})


@pytest.mark.parametrize("who", ["a reader", "a Drainer", "a pull", "a writer"])
def test_a_far_word_does_not_push_the_oracle_away_from_the_time(who: str) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        registry = world.node("r")
        registry.start(service.build, CONFIG)
        p, d = pump("p1"), drainer("d1")
        if who == "a pull":
            p.feeds = {"f": TS_MAX}
        if who == "a writer":
            p.log_ts = TS_MAX
        if who == "a Drainer":
            d.resolved_ts = TS_MAX
        world.node("p1").start(build, p)
        world.node("d1").start(build, d)
        await until_state(world, bus, "p1", ONLINE)
        if who == "a reader":
            body = messages.encode(SafePointRequest(Consumer("app", "f", TS_MAX)))
            answer = await bus.request(subjects.registry(CLUSTER, "safepoint"), body, timeout_s=5)
            messages.decode_reply(answer.data, SafePoint)
        before = await given_within(world, bus, 15)
        await world.sleep(4)
        assert registry.service is not None
        directory = registry.service.status()["directory"]
        assert bool(directory["far_ahead"]) == (who != "a reader")
        registry.kill()
        registry.restart()
        after = await given_within(world, bus, 15)
        assert before < after < compose(world.clock().wall_ms() + 10_000)

    run(main, 1)
