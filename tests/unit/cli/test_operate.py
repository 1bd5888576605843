"""Pause, resume, offline against the real registry, simulated: reached, refused, waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.unit.registry.nodes import CLUSTER, build, drainer, nodes, pump
from tidelog import subjects
from tidelog.errors import BadInput, Conflict, DeadlineExceeded, NotFound, Refused, Unavailable
from tidelog.messages import (
    CLOSING,
    DRAINER,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    PUMP,
    Nodes,
    NodeStatus,
)
from tidelog.ports import Bus, Request
from tidelog.sim.world import World, run
from tidelog_cli import operate
from tidelog_cli.operate import Operated, Wish, choose, has_come_true, progress
from tidelog_registry import service
from tidelog_registry.config import RegistryConfig

CONFIG = RegistryConfig(cluster=CLUSTER)


def agrees(_may_lose: Sequence[str], _question: str) -> None:
    """An operator who has thought of it."""


async def carry_out(bus: Bus, wish: Wish, timeout_s: float = 30.0) -> tuple[Operated, list[str]]:
    said: list[str] = []
    answer = await operate.ask(bus, CLUSTER, wish, agrees)
    return await operate.come_true(bus, CLUSTER, wish, answer, timeout_s, said.append), said


async def state_of(bus: Bus, node: str) -> str:
    return {n.nodeId: n.state for n in (await nodes(bus)).nodes}.get(node, "")


async def until_state(bus: Bus, node: str, state: str) -> None:
    async with asyncio.timeout(30):
        while True:
            try:
                if await state_of(bus, node) == state:
                    return
            except Unavailable:
                pass
            await asyncio.sleep(0.1)


def cluster(scenario: Callable[[World, Bus], Awaitable[None]]) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r").start(service.build, CONFIG)
        await scenario(world, bus)

    run(main)


def test_a_pause_and_a_resume_come_true() -> None:
    async def scenario(world: World, bus: Bus) -> None:
        world.node("p1").start(build, pump("p1"))
        await until_state(bus, "p1", ONLINE)
        done, said = await carry_out(bus, Wish("p1", "pause"))
        assert done == Operated("p1", PUMP, "pause", PAUSED, [])
        assert said[0] == "p1 is pausing"
        again, said = await carry_out(bus, Wish("p1", "pause"))
        assert (again.state, said) == (PAUSED, [])
        done, _ = await carry_out(bus, Wish("p1", "resume"))
        assert (done.state, await state_of(bus, "p1")) == (ONLINE, ONLINE)

    cluster(scenario)


def test_offline_returns_when_it_is_offline_and_says_for_what_it_waits() -> None:
    async def scenario(world: World, bus: Bus) -> None:
        p = pump("p1")
        world.node("p1").start(build, p)
        await until_state(bus, "p1", ONLINE)

        async def leaves() -> None:
            await world.until(lambda: p.told[-1][0] == CLOSING, 10, "it is told")
            await world.sleep(5)
            p.reached = OFFLINE

        async with asyncio.TaskGroup() as group:
            group.create_task(leaves())
            done, said = await carry_out(bus, Wish("p1", "offline"))
        assert done.state == await state_of(bus, "p1") == OFFLINE
        assert said
        assert set(said) == {"p1 is closing"}

    cluster(scenario)


def test_what_does_not_come_true_in_time_is_told_and_the_wish_stands() -> None:
    async def scenario(world: World, bus: Bus) -> None:
        world.node("p1").start(build, pump("p1"))
        await until_state(bus, "p1", ONLINE)
        world.node("p1").kill()
        with pytest.raises(DeadlineExceeded, match="has not come true within 20 s") as raised:
            await carry_out(bus, Wish("p1", "pause"), 20.0)
        assert "the wish stands" in raised.value.hint
        assert await state_of(bus, "p1") == PAUSING

    cluster(scenario)


def test_somebody_else_who_wishes_otherwise_ends_the_wait() -> None:
    async def scenario(world: World, bus: Bus) -> None:
        world.node("p1").start(build, pump("p1"))
        await until_state(bus, "p1", ONLINE)
        world.node("p1").kill()
        answer = await operate.ask(bus, CLUSTER, Wish("p1", "pause"), agrees)
        await operate.ask(bus, CLUSTER, Wish("p1", "resume"), agrees)
        with pytest.raises(Conflict, match="p1 is online, and pause is no longer"):
            await operate.come_true(bus, CLUSTER, Wish("p1", "pause"), answer, 30.0, lambda _: None)

    cluster(scenario)


def test_what_the_registry_refuses_is_a_refusal() -> None:
    async def scenario(world: World, bus: Bus) -> None:
        world.node("p1").start(build, pump("p1"))
        await until_state(bus, "p1", ONLINE)
        await operate.ask(bus, CLUSTER, Wish("p1", "offline"), agrees)
        with pytest.raises(Refused):
            await operate.ask(bus, CLUSTER, Wish("p1", "pause"), agrees)
        with pytest.raises(NotFound, match="no node 'p2'"):
            await operate.ask(bus, CLUSTER, Wish("p2", "pause"), agrees)
        world.node("r").kill()
        with pytest.raises(Unavailable, match="the registry of cluster"):
            await operate.ask(bus, CLUSTER, Wish("p1", "pause"), agrees)

    cluster(scenario)


def test_a_registry_that_is_started_anew_meanwhile_is_waited_for() -> None:
    async def scenario(world: World, bus: Bus) -> None:
        p = pump("p1")
        world.node("p1").start(build, p)
        await until_state(bus, "p1", ONLINE)

        async def falls() -> None:
            await world.until(lambda: p.told[-1][0] == CLOSING, 10, "it is told")
            world.node("r").kill()
            await world.sleep(8)
            world.node("r").start(service.build, CONFIG)
            await world.sleep(8)
            p.reached = OFFLINE

        async with asyncio.TaskGroup() as group:
            group.create_task(falls())
            done, said = await carry_out(bus, Wish("p1", "offline"), 120.0)
        assert done.state == OFFLINE
        assert any("does not answer" in line for line in said)

    cluster(scenario)


def test_nothing_is_given_up_before_an_operator_agrees() -> None:
    async def scenario(world: World, bus: Bus) -> None:
        p, d = pump("p1"), drainer("d1")
        p.max_commit_ts, d.resolved_ts = 1000, 900
        for script in (p, d):
            world.node(script.node).start(build, script)
        await until_state(bus, "p1", ONLINE)
        await world.sleep(3)
        world.node("p1").kill()
        await world.sleep(8)
        asked: list[tuple[Sequence[str], str]] = []

        def declines(lines: Sequence[str], question: str) -> None:
            asked.append((lines, question))
            raise Refused("left as it is")

        with pytest.raises(Refused, match="left as it is"):
            await operate.ask(bus, CLUSTER, Wish("p1", "offline", accept_loss=True), declines)
        assert await state_of(bus, "p1") == ONLINE
        ((lines, question),) = asked
        assert question == "Take pump p1 offline for good?"
        assert "commit_ts 1000" in lines[0]
        assert any("may be lost" in line for line in lines)
        done, _ = await carry_out(bus, Wish("p1", "offline", accept_loss=True))
        assert done.state == await state_of(bus, "p1") == OFFLINE

    cluster(scenario)


def test_several_of_one_name_are_told_apart_by_kind() -> None:
    both = Nodes([NodeStatus("x"), NodeStatus("x", kind=DRAINER), NodeStatus("y")])
    with pytest.raises(BadInput, match="several nodes are called 'x'") as raised:
        choose(both, Wish("x", "pause"))
    assert raised.value.hint == "--kind drainer or pump"
    assert choose(both, Wish("x", "pause", DRAINER)).kind == DRAINER
    with pytest.raises(NotFound, match="no applier 'x'") as raised:
        choose(both, Wish("x", "pause", "applier"))
    assert "'x' is a pump, drainer" in raised.value.hint
    assert choose(both, Wish("y", "pause")).nodeId == "y"
    with pytest.raises(BadInput, match="nothing is of kind 'pumps'"):
        choose(both, Wish("x", "pause", "pumps"))


def test_a_name_that_is_nearly_right_is_shown() -> None:
    found = Nodes([NodeStatus("pump-1"), NodeStatus("drainer", kind=DRAINER)])
    with pytest.raises(NotFound) as raised:
        choose(found, Wish("pump1", "pause"))
    assert raised.value.hint.startswith("'pump-1', perhaps; ")
    with pytest.raises(NotFound) as raised:
        choose(found, Wish("zzz", "pause"))
    assert raised.value.hint == "`tidelog nodes --all` lists them"


def test_a_registry_that_is_slow_to_answer_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(world: World) -> None:
        async def sleeps(_request: Request) -> None:
            """As one that is stopped."""

        await world.ports().bus.serve(subjects.registry(CLUSTER, "nodes"), sleeps)
        with pytest.raises(Unavailable):
            await operate.ask(world.ports("cli").bus, CLUSTER, Wish("p1", "pause"), agrees)

    run(main, 1)
    assert capsys.readouterr().err == f"waiting for the registry of cluster '{CLUSTER}'\n"


def test_the_registry_goes_by_the_kind_too() -> None:
    async def scenario(world: World, bus: Bus) -> None:
        world.node("a").start(build, pump("x"))
        world.node("b").start(build, drainer("x"))
        await until_state(bus, "x", ONLINE)
        await world.sleep(10)
        answer = await operate.ask(bus, CLUSTER, Wish("x", "pause", DRAINER), agrees)
        assert (answer.status.kind, answer.status.state) == (DRAINER, PAUSING)
        states = {n.kind: n.state for n in (await nodes(bus)).nodes}
        assert states[PUMP] == ONLINE

    cluster(scenario)


def test_a_resumed_node_counts_when_it_is_heard_again() -> None:
    assert not has_come_true(NodeStatus("p", state=ONLINE), "resume")
    assert has_come_true(NodeStatus("p", state=ONLINE, isAlive=True), "resume")
    assert has_come_true(NodeStatus("p", state=OFFLINE), "offline")


def test_progress_is_one_line() -> None:
    node = NodeStatus("p", state=CLOSING, detail={"waiting": "for d", "error": "e"})
    assert progress(node) == "p is closing, unreachable: error: e; waiting: for d"
