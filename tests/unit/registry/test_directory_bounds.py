"""What the directory owes, remembers and has yet to tell is bounded; what it drops is counted."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.unit.registry.nodes import CLUSTER, Script, drainer, nodes, pump
from tests.unit.registry.rig import join, operate, play
from tidelog import messages, subjects
from tidelog.ask_registry import ask
from tidelog.errors import DeadlineExceeded, Overloaded, Unavailable
from tidelog.messages import (
    APPLIER,
    PAUSING,
    Beat,
    Consumer,
    Heartbeat,
    NodeStatus,
    SafePoint,
    SafePointRequest,
)
from tidelog.ports import Bus, Headers, Request
from tidelog.sim import World
from tidelog.sim.bus import SimBus
from tidelog_registry import metrics
from tidelog_registry.nodes import directory
from tidelog_registry.nodes.cluster import GONE_S
from tidelog_registry.nodes.directory import WAITERS


def dropped() -> float:
    return float(metrics.EVENTS_DROPPED._value.get())


def deaf(patch: pytest.MonkeyPatch) -> None:
    """NATS takes no message that nobody answers."""

    async def publish(_: SimBus, subject: str, data: bytes, headers: Headers | None = None) -> None:
        raise DeadlineExceeded("too much waits to be sent to NATS")

    patch.setattr(SimBus, "publish", publish)


async def hear(bus: Bus) -> list[str]:
    """The nodes whose events come from now on."""
    heard: list[str] = []

    async def take(request: Request) -> None:
        heard.append(messages.decode(request.data, NodeStatus).nodeId)

    await bus.serve(subjects.registry_events(CLUSTER), take)
    return heard


def test_an_event_that_can_not_be_sent_is_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World, bus: Bus) -> None:
        heard, before = await hear(bus), dropped()
        with monkeypatch.context() as patch, capture_logs() as logs:
            deaf(patch)
            await join(world, pump("p"), drainer("d"))
            await world.until(lambda: dropped() > before + 2, 5)
        assert [line["event"] for line in logs].count("state events are dropped") == 1
        assert heard == []
        assert world.node("r").service.restarts_total == 0
        await join(world, pump("later"))
        await world.until(lambda: "later" in heard, 5)

    play(main)


def test_events_that_are_too_many_at_once_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All leases run out in one tick."""
    monkeypatch.setattr(directory, "EVENTS", 2)

    async def main(world: World, bus: Bus) -> None:
        names = [f"a{n}" for n in range(5)]
        scripts = [Script(APPLIER, name, feed="f") for name in names]
        await join(world, *scripts)
        heard, before = await hear(bus), dropped()
        for name in names:
            world.node(name).partition(True)
        await world.until(lambda: dropped() == before + 3, 20, "three of them")
        await world.sleep(1)
        assert (heard, dropped()) == (names[-2:], before + 3)

    play(main)


async def announce(bus: Bus, node: str, consumer: Consumer) -> bool:
    """Whether it is known."""
    beat = Heartbeat(NodeStatus(node, kind=APPLIER, feed="f"), [consumer])
    return (await ask(bus, CLUSTER, "heartbeat", beat, Beat, timeout_s=5)).known


async def remove(bus: Bus, name: str) -> None:
    wish = SafePointRequest(Consumer(name, "f", 0), remove=True)
    await ask(bus, CLUSTER, "safepoint", wish, SafePoint, timeout_s=5)


async def consumers(bus: Bus) -> list[str]:
    return [one.name for one in (await nodes(bus)).consumers]


def test_only_a_node_that_is_known_speaks_for_a_consumer() -> None:
    """It is let go with the last of those; what the others told counts all the same."""

    async def main(world: World, bus: Bus) -> None:
        copy = Consumer("copy", "f", 50)
        await join(world, Script(APPLIER, "a", feed="f", consumers=[copy]))
        for n in range(20):
            assert not await announce(bus, f"unknown{n}", copy)
        assert not await announce(bus, "unknown", Consumer("other", "f", 30))
        await world.sleep(1)
        assert await consumers(bus) == ["copy", "other"]
        world.node("a").kill()
        await world.sleep(5)
        await operate(bus, "a", "offline")
        assert await consumers(bus) == ["other"]
        await remove(bus, "other")
        assert await consumers(bus) == []

    play(main)


def test_the_consumer_of_a_node_that_is_gone_for_good_is_removed_by_its_name() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, Script(APPLIER, "a", feed="f", consumers=[Consumer("a", "f", 50)]))
        world.node("a").kill()
        await world.sleep(GONE_S + 60)
        assert [node.nodeId for node in (await nodes(bus)).nodes] == []
        assert await consumers(bus) == ["a"]
        await remove(bus, "a")
        assert await consumers(bus) == []

    play(main)


def test_orders_that_wait_for_the_bucket_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, pump("p"), pump("q"))
        with monkeypatch.context() as patch:

            async def append(*_: object, **__: object) -> int:
                raise Unavailable("no bucket")

            patch.setattr(SimBus, "append", append)
            asked = [asyncio.ensure_future(operate(bus, "p", "pause")) for _ in range(WAITERS)]
            await world.sleep(0.5)
            for action in ("pause", "offline"):
                with pytest.raises(Overloaded, match=f"{WAITERS} orders to p"):
                    await operate(bus, "p", action)
            asked.append(asyncio.ensure_future(operate(bus, "q", "pause")))
            await world.sleep(0.5)
        told = await asyncio.gather(*asked)
        assert {status.state for status in told} == {PAUSING}
        assert (await operate(bus, "p", "resume")).order.action == "resume"

    play(main)
