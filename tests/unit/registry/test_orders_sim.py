"""An operator's order holds: over crashes of the node and of the registry, and lost stores."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.registry.nodes import CLUSTER, Script, build, drainer, nodes, pump
from tests.unit.registry.rig import CONFIG, entries, join, operate, play, until_state
from tidelog import ask_registry, messages, subjects
from tidelog.errors import Refused
from tidelog.feeds import Feed, Feeds
from tidelog.kv import Bucket
from tidelog.messages import (
    APPLIER,
    CLOSING,
    DRAINER_CONSUMER,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    Consumer,
    NodeStatus,
    SafePoint,
    SafePointRequest,
    StateReply,
    StateRequest,
)
from tidelog.orders import read_order
from tidelog.ports import Bus
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX
from tidelog_cli.feed import refuse_if_read
from tidelog_registry import service


def applier(node: str) -> Script:
    script = drainer(node)
    script.kind = APPLIER
    script.consumers = [Consumer(node, "f", 50)]
    return script


async def node_status(bus: Bus, node: str) -> NodeStatus:
    return next(s for s in (await nodes(bus)).nodes if s.nodeId == node)


READERS = {"drainer": drainer, "applier": applier}
REGISTRIES = ("r", "another", "third")


async def lose(world: World, what: str, node: str) -> None:
    """A crash, and a lost store; everybody is back when it returns."""
    if "node" in what:
        world.node(node).kill()
    registry = next(world.node(name) for name in reversed(REGISTRIES) if world.node(name).starts)
    if "registry" in what:
        registry.kill()
    if "store" in what:
        world.nats.delete_store()
    await world.sleep(8)
    if "directory" in what:
        fresh = next(world.node(name) for name in REGISTRIES if not world.node(name).starts)
        fresh.start(service.build, CONFIG)
    elif "registry" in what:
        registry.restart()
    if "node" in what:
        world.node(node).restart()
    await world.sleep(12)


LOSSES = [
    "node",
    "registry",
    "node and registry",
    "store",
    "node, store",
    "registry, store",
    "node, registry, store",
    "registry's directory, store",
    "node, registry's directory, store",
]


@pytest.mark.parametrize("lost", LOSSES)
@pytest.mark.parametrize("kind", ["pump", "drainer"])
def test_a_pause_holds_until_resume(kind: str, lost: str) -> None:
    async def main(world: World, bus: Bus) -> None:
        script = pump("n", log_ts=5) if kind == "pump" else drainer("n")
        await join(world, script)
        assert (await operate(bus, "n", "pause")).state == PAUSING
        await until_state(world, bus, "n", PAUSED)
        script.told.clear()
        await lose(world, lost, "n")
        await until_state(world, bus, "n", PAUSED)
        assert ONLINE not in [state for state, _ in script.told]
        await operate(bus, "n", "resume")
        await world.until(lambda: script.told[-1][0] == ONLINE, 5, "it is told")
        script.told.clear()
        await lose(world, lost, "n")
        await until_state(world, bus, "n", ONLINE)
        assert {state for state, _ in script.told} <= {ONLINE, messages.JOINING}

    play(main)


@pytest.mark.parametrize("lost", ["registry", "node and registry", "registry's directory"])
@pytest.mark.parametrize("action", ["pause", "resume", "offline"])
@pytest.mark.parametrize("kind", ["pump", "drainer", "applier"])
def test_an_order_that_was_answered_outlives_the_registry(
    kind: str, action: str, lost: str
) -> None:
    """It dies in the same instant: the node has not heard of the order."""

    async def main(world: World, bus: Bus) -> None:
        script = pump("n") if kind == "pump" else READERS[kind]("n")
        script.max_commit_ts = script.log_ts = script.high_ts = 5 if kind == "pump" else 0
        await join(world, script)
        if action == "resume":
            await operate(bus, "n", "pause")
            await until_state(world, bus, "n", PAUSED)
        script.told.clear()
        await operate(bus, "n", action)
        world.node("r").kill()
        assert script.told == []
        await lose(world, lost, "n")
        obeyed = {"pause": PAUSED, "resume": ONLINE, "offline": CLOSING}[action]
        await until_state(world, bus, "n", obeyed)
        told = {state for state, _ in script.told} - {messages.JOINING}
        assert (
            told == {"pause": {PAUSING, PAUSED}, "resume": {ONLINE}, "offline": {CLOSING}}[action]
        )
        if action == "offline":
            script.reached = OFFLINE
            await until_state(world, bus, "n", OFFLINE, 20)

    play(main)


def test_who_asks_again_is_answered_no_sooner_than_the_order_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first question ran into its timeout, say, while the store was slow."""
    put = Bucket.put

    async def slow(bucket: Bucket, *args: Any, **options: Any) -> int:
        await asyncio.sleep(1.5)
        return await put(bucket, *args, **options)

    async def main(world: World, bus: Bus) -> None:
        await join(world, pump("n", log_ts=5))
        monkeypatch.setattr(Bucket, "put", slow)
        first, again = (asyncio.ensure_future(operate(bus, "n", "pause")) for _ in range(2))
        await asyncio.wait([first, again], return_when=asyncio.FIRST_COMPLETED)
        assert (await entries(bus))["n"].order.action == "pause"
        assert [(await asked).state for asked in (first, again)] == [PAUSING, PAUSING]

    play(main)


def test_a_clean_stop_is_no_operators_pause() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, pump("p1"), pump("p2"))
        await operate(bus, "p1", "pause")
        await until_state(world, bus, "p1", PAUSED)
        for node in ("p1", "p2"):
            await world.node(node).stop()
            await until_state(world, bus, node, PAUSED)
            world.node(node).restart()
        await until_state(world, bus, "p2", ONLINE)
        await world.sleep(5)
        await until_state(world, bus, "p1", PAUSED)

    play(main)


def test_what_is_asked_of_a_pump_that_is_away_waits_for_it() -> None:
    async def main(world: World, bus: Bus) -> None:
        p = pump("p1", log_ts=5)
        await join(world, p)
        world.node("p1").kill()
        assert (await operate(bus, "p1", "pause")).state == PAUSING
        world.node("r").kill()
        world.node("r").restart()
        world.node("p1").restart()
        await until_state(world, bus, "p1", PAUSED)
        world.node("p1").kill()
        await operate(bus, "p1", "resume")
        p.told.clear()
        world.node("p1").restart()
        await until_state(world, bus, "p1", ONLINE)
        await world.until(lambda: bool(p.told), 5, "it is told")
        assert {state for state, _ in p.told} == {ONLINE}

    play(main)


@pytest.mark.parametrize("lost", LOSSES)
def test_a_closing_pump_goes_on_closing_and_one_that_left_stays_away(lost: str) -> None:
    async def main(world: World, bus: Bus) -> None:
        p, d = pump("p1"), drainer("d1")
        p.max_commit_ts = p.high_ts = 100
        d.resolved_ts = 50
        for script in (p, d):
            world.node(script.node).start(build, script)
        await until_state(world, bus, "p1", ONLINE, 20)
        await operate(bus, "p1", "offline")
        await until_state(world, bus, "p1", CLOSING)
        p.reached = OFFLINE
        await world.sleep(5)
        waits = (await node_status(bus, "p1")).detail["closing"]
        assert waits == "waits for consumer drainer of feed f, which has read up to 50"
        p.told.clear()
        await lose(world, lost, "p1")
        await until_state(world, bus, "p1", CLOSING)
        assert ONLINE not in [state for state, _ in p.told]
        d.resolved_ts = 100
        await until_state(world, bus, "p1", OFFLINE)
        entry = (await entries(bus))["p1"]
        assert (entry.state, entry.high_ts, entry.read_ts) == (OFFLINE, 100, 100)
        if "node" in lost:
            return
        await world.until(lambda: p.told[-1][0] == OFFLINE, 5, "it is told")
        await lose(world, lost, "p1")
        assert p.told[-1][0] == OFFLINE, "only a new start brings it back"
        await until_state(world, bus, "p1", OFFLINE)
        assert (await entries(bus))["p1"].state == OFFLINE
        assert (await node_status(bus, "p1")).isAlive

    play(main)


def test_a_pump_that_left_comes_back_as_a_new_one() -> None:
    async def main(world: World, bus: Bus) -> None:
        p, d = pump("p1"), drainer("d1")
        world.node("d1").start(build, d)
        await world.until(lambda: bool(d.told), 5, "the Drainer registers")
        await join(world, p)
        for number in (1, 2):
            p.reached = OFFLINE
            await operate(bus, "p1", "offline")
            await until_state(world, bus, "p1", OFFLINE, 20)
            p.reached = ""
            world.node("p1").kill()
            world.node("p1").restart()
            await until_state(world, bus, "p1", ONLINE)
            assert d.added == ["p1"] * (number + 1)
            await world.until(lambda: p.told[-1][0] == ONLINE, 5, "it is told")
            assert read_order(world.node("p1").ports().disk).standing.action == ""

    play(main)


@pytest.mark.parametrize("kind", ["drainer", "applier"])
def test_a_reader_taken_offline_is_waited_for_no_more(kind: str) -> None:
    async def main(world: World, bus: Bus) -> None:
        script = applier("n") if kind == "applier" else drainer("n")
        script.resolved_ts = 50
        await join(world, script)
        await world.sleep(7)
        assert (await nodes(bus)).safe_point == 50
        await operate(bus, "n", "offline")
        await world.until(lambda: script.told[-1][0] == CLOSING, 5, "it is told")
        assert (await nodes(bus)).safe_point == 50, "it is still at work"
        script.reached = OFFLINE
        await until_state(world, bus, "n", OFFLINE)
        await world.sleep(5)
        known = await nodes(bus)
        assert (known.consumers, known.safe_point) == ([], (1 << 63) - 1)
        assert [(s.state, s.isAlive) for s in known.nodes] == [(OFFLINE, True)]
        world.node("n").kill()
        script.reached = ""
        world.node("n").restart()
        await until_state(world, bus, "n", ONLINE)
        await world.sleep(3)
        assert (await nodes(bus)).safe_point == 50, "started again, it is a new one"

    play(main)


def test_a_drainer_that_is_gone_for_good_is_removed_at_once_and_its_feed_kept() -> None:
    async def main(world: World, bus: Bus) -> None:
        d = drainer("d1")
        d.resolved_ts = 50
        await join(world, d)
        await world.sleep(3)
        world.node("d1").kill()
        await world.sleep(6)
        assert (await operate(bus, "d1", "offline")).state == OFFLINE
        world.node("p1").start(build, pump("p1"))
        await until_state(world, bus, "p1", ONLINE, 3)
        await world.sleep(5)
        assert (await nodes(bus)).safe_point == 50

    play(main)


def test_an_accepted_loss_is_recorded_and_the_pump_that_comes_back_after_all_joins_anew() -> None:
    async def main(world: World, bus: Bus) -> None:
        p, d = pump("p1"), drainer("d1")
        p.max_commit_ts = p.high_ts = 100
        d.resolved_ts = 60
        for script in (p, d):
            world.node(script.node).start(build, script)
        await until_state(world, bus, "p1", ONLINE, 20)
        await operate(bus, "p1", "pause")
        await until_state(world, bus, "p1", PAUSED)
        world.node("p1").kill()
        await world.sleep(8)
        body = messages.encode(StateRequest("p1", "offline", accept_loss=True))
        answer = await bus.request(subjects.registry(CLUSTER, "state"), body, timeout_s=3.0)
        reply = messages.decode_reply(answer.data, StateReply)
        assert "everything of p1 with a commit_ts above 60 may be lost" in reply.may_lose
        assert reply.status.state == OFFLINE
        entry = (await entries(bus))["p1"]
        assert (entry.state, entry.high_ts, entry.read_ts) == (OFFLINE, 100, 60)
        world.node("r").kill()
        world.node("r").restart()
        p.told.clear()
        d.added.clear()
        world.node("p1").restart()
        await until_state(world, bus, "p1", ONLINE, 20)
        assert d.added == ["p1"]

    play(main)


def test_the_loss_of_a_pump_that_died_before_the_registry_began_tells_what_it_held() -> None:
    """A rewind below it, or a feed that is created later, would lack that without a word."""

    async def main(world: World, bus: Bus) -> None:
        p, d = pump("p1"), drainer("d1")
        p.max_commit_ts = p.high_ts = 100
        d.resolved_ts, d.consumers = 100, [Consumer("a1", "f", 60)]
        for script in (p, d):
            world.node(script.node).start(build, script)
        await until_state(world, bus, "p1", ONLINE, 20)
        await world.sleep(3)
        world.node("p1").kill()
        world.node("r").kill()
        world.node("r").restart()
        await world.sleep(15)
        shown = await operate(bus, "p1", "offline", accept_loss=True)
        assert (shown.state, shown.maxCommitTS) == (OFFLINE, 100)
        entry = (await entries(bus))["p1"]
        assert (entry.state, entry.high_ts, entry.read_ts) == (OFFLINE, 100, 60)

    play(main)


def test_a_pump_waits_for_a_registry_that_is_away_says_so_and_joins_then() -> None:
    async def main(world: World) -> None:
        p = pump("p1")
        world.node("p1").start(build, p)
        await world.sleep(30)
        assert p.told == []
        shown = world.node("p1").status()
        assert isinstance(shown, dict)
        assert "nobody serves" in shown["membership"]["not_ready"]
        world.node("r").start(service.build, CONFIG)
        await until_state(world, world.ports().bus, "p1", ONLINE)

    run(main)


def test_a_feed_s_last_drainer_that_was_let_go_is_waited_for_no_more() -> None:
    """Its good-bye told a position, and made it a consumer once more: the safe point stood still
    for ever, and no command took it away."""

    async def main(world: World, bus: Bus) -> None:
        d = drainer("d1")
        d.resolved_ts = 50
        await join(world, pump("p1"), d)
        await world.sleep(3)
        assert [one.name for one in (await nodes(bus)).consumers] == [DRAINER_CONSUMER]
        await operate(bus, "d1", "offline")
        d.reached = OFFLINE
        await until_state(world, bus, "d1", OFFLINE)
        await world.sleep(3)
        assert (await nodes(bus)).consumers == []
        await world.node("d1").stop()
        await world.sleep(10)
        found = await nodes(bus)
        assert (found.consumers, found.safe_point) == ([], TS_MAX)

    play(main)


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_feed_whose_drainers_are_gone_for_good_can_be_forgotten(how: str) -> None:
    async def main(world: World, bus: Bus) -> None:
        d = drainer("d1")
        d.resolved_ts = 50
        await join(world, pump("p1"), d)
        await world.sleep(10)
        if how == "killed":
            world.node("d1").kill()
            await world.sleep(10)
        else:
            await world.node("d1").stop()
        with pytest.raises(Refused, match="Drainer d1"):
            refuse_if_read(await nodes(bus), "f")
        await operate(bus, "d1", "offline")
        found = await nodes(bus)
        assert [one.name for one in found.consumers] == [DRAINER_CONSUMER], "until it is forgotten"
        refuse_if_read(found, "f")
        request = SafePointRequest(Consumer("", "f", 0), remove=True)
        now = await ask_registry.ask(bus, CLUSTER, "safepoint", request, SafePoint, timeout_s=5)
        assert now.safe_point == TS_MAX
        assert (await nodes(bus)).consumers == []

    play(main)


@pytest.mark.parametrize("begins", [10, 100])
def test_a_feed_that_was_created_and_not_begun_is_waited_for(begins: int) -> None:
    """Nobody speaks for it yet: Pumps left with what it was to publish."""

    async def main(world: World, bus: Bus) -> None:
        p = pump("p1")
        p.max_commit_ts = p.high_ts = 100
        await join(world, p)
        await Feeds(bus, CLUSTER).create(Feed("f", begins, created_ms=1))
        await operate(bus, "p1", "offline")
        await until_state(world, bus, "p1", CLOSING)
        p.reached = OFFLINE
        if begins < 100:
            await world.sleep(5)
            waits = (await node_status(bus, "p1")).detail["closing"]
            assert "waits for feed f, which begins at 10 and was not begun yet" in waits
            d = drainer("d1")
            d.resolved_ts = 100
            world.node("d1").start(build, d)
        await until_state(world, bus, "p1", OFFLINE)

    play(main)


def test_while_feeds_can_not_be_read_no_pump_leaves() -> None:
    async def main(world: World, bus: Bus) -> None:
        p = pump("p1")
        p.max_commit_ts = p.high_ts = 100
        await join(world, p)
        feeds = Bucket(bus, subjects.feeds_bucket(CLUSTER))
        await feeds.create()
        await feeds.put("feed.f", b"{")
        await operate(bus, "p1", "offline")
        await until_state(world, bus, "p1", CLOSING)
        p.reached = OFFLINE
        await world.sleep(5)
        assert "a feed's record can't be read" in (await node_status(bus, "p1")).detail["closing"]
        await feeds.delete("feed.f")
        await until_state(world, bus, "p1", OFFLINE)

    play(main)
