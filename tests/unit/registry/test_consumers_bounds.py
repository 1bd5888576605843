"""Consumers with long names, and positions that are no timestamps: what is kept of them has to fit
in one message, or the registry could not keep anything, nor start again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count

import msgspec
import pytest

from tests.unit.registry.nodes import CLUSTER, Script, nodes, pump
from tests.unit.registry.rig import CONFIG, join, operate, play
from tidelog import messages
from tidelog.ask_registry import ask
from tidelog.errors import (
    BadInput,
    Refused,
    Stopped,
    TidelogError,
    Unavailable,
    UnparsablePayload,
)
from tidelog.messages import (
    APPLIER,
    DRAINER,
    PUMP,
    Consumer,
    Heartbeat,
    NodeStatus,
    SafePoint,
    SafePointRequest,
)
from tidelog.ports import Bus
from tidelog.sealed import seal
from tidelog.sim import World, run
from tidelog.sim import bus as sim_bus
from tidelog.timestamps import TS_MAX
from tidelog_registry import service
from tidelog_registry.consumers import store as consumer_store
from tidelog_registry.consumers.consumers import RECORD_BYTES, Consumers, Kept
from tidelog_registry.consumers.store import Stored

LONG = "\x01" * 250
"""Six bytes each in JSON."""
TS = 1 << 60


async def register(bus: Bus, consumer: Consumer) -> SafePoint:
    wanted = SafePointRequest(consumer)
    return await ask(bus, CLUSTER, "safepoint", wanted, SafePoint, timeout_s=5)


@pytest.mark.parametrize(
    "consumer",
    [
        Consumer("x" * 256, "f", 1),
        Consumer("a", "f" * 256, 1),
        *(Consumer("a", "f", ts) for ts in (-5, TS_MAX + 1, 1 << 70)),
    ],
)
def test_a_consumer_beyond_a_bound_is_refused_at_the_door(consumer: Consumer) -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, pump("p"))
        with pytest.raises(UnparsablePayload, match="SafePointRequest"):
            await register(bus, consumer)
        assert (await nodes(bus)).consumers == []
        await register(bus, Consumer("a" * 255, "f" * 63, TS_MAX))
        assert (world.node("r").starts, world.node("r").failures) == (1, [])

    play(main)


@pytest.mark.parametrize("feed", ["billing.v2", "main=app", "Main", "a b", "*", "f" * 64, ""])
def test_a_consumer_of_what_is_no_name_of_a_feed_is_refused(feed: str) -> None:
    """Subjects and streams are made of it."""
    consumer, known = Consumer("a", feed, 1), Consumers(Kept())
    with pytest.raises(BadInput, match="1 to 63 of a-z"):
        known.put(consumer)
    known.announced(Heartbeat(NodeStatus("a", kind=APPLIER), [consumer]))
    assert (known.kept(), known.refused) == (Kept(), 1)


@pytest.mark.parametrize("feed", ["billing.v2", "Main", "a b", "*", "f" * 64, "", "=", "a b=app"])
def test_what_was_pulled_under_no_name_of_a_feed_is_no_feed(feed: str) -> None:
    """A replay of one for a reader is."""
    known, read = Consumers(Kept()), {"main": 2, "main=app": 1}
    known.announced(Heartbeat(NodeStatus("p", kind=PUMP), feeds=read | {feed: 0}))
    assert (known.feeds, known.refused) == (read, 1)


def test_of_a_node_that_is_not_known_nothing_is_remembered() -> None:
    """Any number of them may have told something once; their feeds stay."""
    known = Consumers(Kept())
    known.announced(Heartbeat(NodeStatus("p", kind=PUMP), feeds={"main": 2}))
    known.announced_by({"another"})
    known.announced(Heartbeat(NodeStatus("p", kind=PUMP), feeds={}))
    assert known.feeds == {"main": 2}
    known.announced(Heartbeat(NodeStatus("p", kind=PUMP), feeds={"main": 2}))
    known.announced(Heartbeat(NodeStatus("p", kind=PUMP), feeds={}))
    assert known.feeds == {}


def test_a_consumer_that_an_earlier_release_took_can_be_removed() -> None:
    known = Consumers(Kept([Consumer("a", "billing.v2", 1)]))
    assert known.safe_point() == 1
    assert known.remove("billing.v2", "a")
    assert known.kept() == Kept()


@pytest.mark.parametrize(
    "beat",
    [
        Heartbeat(NodeStatus("d", kind=DRAINER, feed="f", resolvedTS=TS_MAX + 1)),
        Heartbeat(NodeStatus("d", kind=DRAINER, feed="f" * 256, resolvedTS=1)),
        Heartbeat(NodeStatus("p", kind=PUMP), feeds={"f": -1}),
        Heartbeat(NodeStatus("p", kind=PUMP), feeds={"f" * 256: 1}),
    ],
)
def test_what_a_node_tells_is_bounded_as_what_is_kept_of_it(beat: Heartbeat) -> None:
    with pytest.raises(UnparsablePayload):
        messages.decode(messages.encode(beat), Heartbeat)


def test_consumers_are_taken_as_long_as_all_of_them_fit_in_one_record() -> None:
    known = Consumers(Kept())
    taken = 0
    with suppress(Refused):
        for taken in count():
            known.put(Consumer(f"{LONG}{taken}", "f", TS))
    with pytest.raises(Refused, match=f"{taken} consumers are registered"):
        known.put(Consumer(f"{LONG}{taken}", "f", TS))
    assert taken > 100
    for n in range(taken):
        known.put(Consumer(f"{LONG}{n}", "f", TS_MAX))  # moved, not one more
    refused = known.refused
    known.announced(Heartbeat(NodeStatus("a", kind=APPLIER), [Consumer(LONG + "a", "f", TS)]))
    assert known.refused == refused + 1
    known.announced(Heartbeat(NodeStatus("p", kind=PUMP), feeds={f"{n:063}": 5 for n in range(64)}))
    assert known.refused > refused + 1 + 32
    assert len(msgspec.json.encode(known.kept())) <= RECORD_BYTES
    assert known.remove("f", f"{LONG}0")
    known.put(Consumer(LONG + "a", "f", TS))


def test_more_than_nats_server_takes_is_written_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its max_payload may be smaller than what we go by."""

    async def main(world: World, bus: Bus) -> None:
        await join(world, pump("p"))
        await register(bus, Consumer("a", "f", 5))
        registry = world.node("r")
        with monkeypatch.context() as patch:
            patch.setattr(sim_bus, "MAX_PAYLOAD", 8 << 10)
            asked = [register(bus, Consumer(f"{LONG}{n}", "f", 5)) for n in range(8)]
            told = await asyncio.gather(*asked, return_exceptions=True)
            assert {type(one) for one in told} - {SafePoint} == {Unavailable}
            assert len(registry.ports().disk.read_file(consumer_store.FILE)) < 8 << 10
            registry.kill()
            registry.restart()
            await join(world, pump("p2"))
        assert "a" in [one.name for one in (await nodes(bus)).consumers]
        assert registry.failures == []

    play(main)


def test_a_file_with_more_than_nats_server_takes_is_named() -> None:
    many = [Consumer(f"{n:0255}", "f" * 255, 5) for n in range(2000)]

    async def main(world: World) -> None:
        registry = world.node("r")
        registry.disk.restore({consumer_store.FILE: seal(Stored(many, epoch=0))})
        registry.start(service.build, CONFIG)
        await world.until(lambda: bool(registry.failures), 60, "the error")
        assert isinstance(registry.failures[0], Stopped)
        assert "consumers.json: the kept consumers have" in str(registry.failures[0])
        assert "max_payload" in registry.failures[0].hint

    run(main)


def test_what_is_refused_for_sure_among_many_changes_is_not_done() -> None:
    """More than the registry lets wait for its disk, and an order among them."""

    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(APPLIER, "a1", feed="main"))
        world.node("r").disk.faults.write_s = 0.5
        wanted = [Consumer(f"app{n}", "main", n + 1) for n in range(150)]
        asked = [register(bus, one) for one in wanted]
        orders = [operate(bus, "a1", action) for action in ("pause", "resume") * 40]
        told = await asyncio.gather(*asked, *orders, return_exceptions=True)
        refused = {one.name for one, error in zip(wanted, told, strict=False) if is_definite(error)}
        assert 0 < len(refused) < len(wanted)
        assert not [error for error in told[len(wanted) :] if is_definite(error)]
        known = {one.name for one in (await nodes(bus)).consumers}
        assert {one.name for one in wanted} - known == refused
        for one in wanted:
            await register(bus, one)

    play(main)


def is_definite(error: object) -> bool:
    assert not isinstance(error, BaseException) or isinstance(error, TidelogError)
    return isinstance(error, TidelogError) and error.definite


def test_what_an_earlier_release_kept_ends_no_registry() -> None:
    kept = [("late", -1), ("early", 1 << 70), ("x" * 256, TS)]
    consumers = [{"name": name, "feed": "f", "commit_ts": ts} for name, ts in kept]
    record = {"consumers": consumers, "feeds": {"f": -5, "y" * 256: 7}, "orders": [], "epoch": 0}

    async def main(world: World) -> None:
        registry = world.node("r")
        registry.disk.restore({consumer_store.FILE: seal(record)})
        registry.start(service.build, CONFIG)
        bus = world.ports("reader").bus
        found = None
        while found is None:
            with suppress(Unavailable):
                found = await nodes(bus)
            await world.sleep(0.1)
        positions = {one.name: one.commit_ts for one in found.consumers}
        assert positions == {"late": 0, "early": TS_MAX}
        assert registry.failures == []

    run(main)
