"""A Pump that an operator pauses or takes out, with a registry, on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.pump.rig import (
    CLUSTER,
    CONFIG,
    NODE,
    Client,
    commit,
    prewrite,
    rollback,
    ts_now,
)
from tests.unit.registry.rig import entries, operate, until_state
from tidelog import messages, subjects
from tidelog.messages import (
    CLOSING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PUMP,
    Consumer,
    Nodes,
    NodeStatus,
    SafePointRequest,
)
from tidelog.ports import Bus, Request
from tidelog.sim import World, run
from tidelog_pump.service import build
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

REGISTRY = RegistryConfig(cluster=CLUSTER, cluster_id=CONFIG.cluster_id, oracle="follow")


async def start(world: World) -> tuple[Bus, Client]:
    """A registry and a Pump that is online, and the lease time over in which nothing is known."""
    bus = world.ports().bus
    world.node("r").start(build_registry, REGISTRY)
    world.node(NODE).start(build, CONFIG)
    client = Client(bus)
    await client.until_online()
    await world.sleep(7)
    return bus, client


async def shown(bus: Bus) -> NodeStatus:
    answer = await bus.request(subjects.registry(CLUSTER, "nodes"), b"{}", timeout_s=2.0)
    nodes = messages.decode_reply(answer.data, Nodes).nodes
    return next(status for status in nodes if status.nodeId == NODE)


async def read_by(bus: Bus, commit_ts: int) -> None:
    """The consumer `a` has read up to there."""
    body = messages.encode(SafePointRequest(Consumer("a", "f", commit_ts)))
    await bus.request(subjects.registry(CLUSTER, "safepoint"), body, timeout_s=2.0)


async def refused(client: Client, *payloads: bytes) -> list[tuple[str, bool]]:
    return [(result.code, result.definite) for result in await client.write(*payloads)]


def test_a_paused_pump_refuses_prewrites_for_sure_and_does_all_the_rest() -> None:
    async def main(world: World) -> None:
        bus, client = await start(world)
        first, second = ts_now(world), ts_now(world, 5)
        await client.done(prewrite(first), prewrite(second))
        await operate(bus, NODE, "pause")
        await until_state(world, bus, NODE, PAUSED)
        assert (await shown(bus)).open == 2
        assert await refused(client, b"", prewrite(ts_now(world))) == [("NotOnline", True)] * 2
        await client.done(commit(first, first + 100), rollback(second))
        assert [t.commit_ts for t in await client.pull_up_to(first + 100)] == [first + 100]
        wanted = ts_now(world)
        await client.pull_up_to(wanted, first + 100, want_ts=wanted)
        for _ in range(2):
            world.node(NODE).kill()
            world.node(NODE).restart()
            await world.sleep(10)
            assert await refused(client, prewrite(ts_now(world))) == [("NotOnline", True)]
        await operate(bus, NODE, "resume")
        await client.until_online()

    run(main)


def test_no_prewrite_is_acked_after_it_was_seen_paused() -> None:
    async def main(world: World) -> None:
        bus, client = await start(world)
        acked: list[float] = []

        async def write() -> None:
            while True:
                start_ts = ts_now(world)
                (result,) = await client.write(prewrite(start_ts))
                if result.code:
                    return
                acked.append(world.loop.time())
                await client.write(rollback(start_ts))

        writers = [asyncio.create_task(write()) for _ in range(8)]
        await world.sleep(1)
        paused: list[float] = []

        async def see(request: Request) -> None:
            if messages.decode(request.data, NodeStatus).state == PAUSED:
                paused.append(world.loop.time())

        await bus.serve(subjects.registry_event(CLUSTER, PUMP, NODE), see)
        await operate(bus, NODE, "pause")
        await asyncio.wait(writers)
        await world.until(lambda: bool(paused), 5, "the event")
        assert acked
        assert acked[-1] < paused[0]

    run(main)


def test_it_leaves_when_nothing_is_open_and_everybody_has_read_it() -> None:
    async def main(world: World) -> None:
        bus, client = await start(world)
        done, waiting = ts_now(world), ts_now(world, 9)
        await read_by(bus, 1)
        await client.done(prewrite(done), commit(done, done + 1), prewrite(waiting))
        await operate(bus, NODE, "offline")
        await until_state(world, bus, NODE, CLOSING)
        await world.sleep(3)
        now = await shown(bus)
        assert (now.state, now.detail["closing"]) == (CLOSING, "waits for 1 open Prewrites")
        assert await refused(client, prewrite(ts_now(world))) == [("NotOnline", True)]
        last = waiting + 50
        await client.done(commit(waiting, last))
        await world.sleep(3)
        now = await shown(bus)
        assert now.state == CLOSING
        assert "consumer a of feed f, which has read up to 1" in now.detail["closing"]
        await read_by(bus, last - 1)
        await world.sleep(3)
        assert (await shown(bus)).state == CLOSING
        await read_by(bus, last)
        await until_state(world, bus, NODE, OFFLINE)
        entry = (await entries(bus))[NODE]
        assert (entry.state, entry.high_ts, entry.read_ts) == (OFFLINE, last, last)

    run(main)


def test_what_left_can_be_read_and_takes_nothing_until_it_is_started_again() -> None:
    async def main(world: World) -> None:
        bus, client = await start(world)
        done = ts_now(world)
        await client.done(prewrite(done), commit(done, done + 1))
        await operate(bus, NODE, "offline")
        await until_state(world, bus, NODE, OFFLINE)
        await world.sleep(20)
        stray = ts_now(world)
        assert (
            await refused(client, prewrite(stray), commit(stray, stray + 1), rollback(stray + 2))
            == [("NotOnline", True)] * 3
        )
        await client.done(commit(done, done + 1))
        assert [t.commit_ts for t in await client.pull_up_to(done + 1)] == [done + 1]
        assert (await client.control("inspect", done))["state"] == "committed"
        now = await shown(bus)
        assert (now.state, now.isAlive, now.maxCommitTS) == (OFFLINE, True, done + 1)
        assert "can be read for 7 days" in now.detail["offline"]
        status = world.node(NODE).status()
        assert isinstance(status, dict)
        assert "started again" in status["membership"]["not_ready"]
        world.node(NODE).kill()
        world.node(NODE).restart()
        await client.until_online()
        await until_state(world, bus, NODE, ONLINE)

    run(main)


@pytest.mark.parametrize("seed", range(5))
def test_a_pump_that_dies_while_it_leaves_leaves_nevertheless(seed: int) -> None:
    async def main(world: World) -> None:
        bus, client = await start(world)
        rng = world.random("test")
        starts = [ts_now(world, n) for n in range(20)]
        await client.done(*map(prewrite, starts))
        await operate(bus, NODE, "offline")
        for number, start_ts in enumerate(starts):
            if rng.random() < 0.3:
                world.node(rng.choice([NODE, "r"])).kill(restart_after_s=rng.random())
                await world.sleep(12)
            await client.done(commit(start_ts, starts[-1] + 1 + number))
            assert (await shown(bus)).state == CLOSING
        last = starts[-1] + len(starts)
        await until_state(world, bus, NODE, OFFLINE, 20)
        assert (await entries(bus))[NODE].high_ts == last
        assert len(await client.pull_up_to(last)) == len(starts)

    run(main, seed)
