"""The status bucket in the simulator: filled, left to end, lost and filled again."""

from __future__ import annotations

import pytest

from tests.unit.registry.nodes import CLUSTER, Script, build, drainer, pump
from tests.unit.registry.rig import CONFIG, until_state
from tidelog import subjects
from tidelog.errors import StreamMissing
from tidelog.membership import HEARTBEAT_S
from tidelog.messages import DRAINER, ONLINE, PUMP, NodeStatus
from tidelog.node_statuses import STATUS_TTL_S, read_statuses
from tidelog.ports import Bus
from tidelog.sim import World, run
from tidelog.timestamps import physical_ms
from tidelog_registry import service
from tidelog_registry.nodes.node_state import NODE_LEASE_S
from tidelog_registry.statuses.board import LOOK_S
from tidelog_registry.statuses.entries import RENEW_S

STREAM = "KV_" + subjects.status_bucket(CLUSTER)
Shown = dict[tuple[str, str], tuple[str, bool]]
ALL: Shown = {(DRAINER, "d1"): (ONLINE, True), (PUMP, "p1"): (ONLINE, True)}


async def shown(bus: Bus) -> Shown:
    try:
        found = await read_statuses(bus, CLUSTER)
    except StreamMissing:
        return {}
    return {(s.kind, s.nodeId): (s.state, s.isAlive) for s in found}


async def until_shown(world: World, bus: Bus, wanted: Shown, within_s: float) -> float:
    began = world.loop.time()
    while (found := await shown(bus)) != wanted:
        assert world.loop.time() - began < within_s, found
        await world.sleep(0.05)
    return world.loop.time() - began


async def started(world: World) -> Bus:
    """A registry, a Pump and a Drainer, all online."""
    bus = world.ports().bus
    world.node("r").start(service.build, CONFIG)
    p1, d1 = pump("p1"), drainer("d1")
    p1.max_commit_ts, p1.high_ts, d1.resolved_ts = 5, 7, 3
    scripts: list[Script] = [p1, d1]
    for script in scripts:
        world.node(script.node).start(build, script)
    await until_state(world, bus, "p1", ONLINE)
    await until_shown(world, bus, ALL, 5)
    return bus


def test_entries_have_the_seeds_fields_and_are_renewed() -> None:
    async def main(world: World) -> None:
        bus = await started(world)
        oldest_s = HEARTBEAT_S + LOOK_S + RENEW_S + LOOK_S
        for _ in range(30):
            await world.sleep(1)
            found = await read_statuses(bus, CLUSTER)
            assert [s.nodeId for s in found] == ["d1", "p1"]
            for status in found:
                age_s = (world.ports().clock.wall_ms() - physical_ms(status.updateTS)) / 1000
                assert 0 <= age_s < oldest_s
        assert (found[1].maxCommitTS, found[1].highTS, found[1].kind) == (5, 7, PUMP)
        entry = world.nats.streams[STREAM].last_message(f"$KV.{STREAM[3:]}.pump.p1")
        assert entry is not None
        for name in NodeStatus.__struct_fields__[:8]:
            assert f'"{name}":'.encode() in entry.data

    run(main)


def test_a_dead_node_is_told_of_and_then_ends() -> None:
    async def main(world: World) -> None:
        bus = await started(world)
        world.node("p1").kill()
        dead = {**ALL, (PUMP, "p1"): (ONLINE, False)}
        await until_shown(world, bus, dead, HEARTBEAT_S + NODE_LEASE_S + 2 * LOOK_S)
        gone = {(DRAINER, "d1"): (ONLINE, True)}
        await until_shown(world, bus, gone, STATUS_TTL_S + LOOK_S)

    run(main)


def test_entries_end_when_the_registry_is_dead_too() -> None:
    async def main(world: World) -> None:
        bus = await started(world)
        world.node("r").kill()
        world.node("p1").kill()
        await until_shown(world, bus, {}, STATUS_TTL_S + 1)
        world.node("r").restart()
        gone = {(DRAINER, "d1"): (ONLINE, True)}
        await until_shown(world, bus, gone, 2 * NODE_LEASE_S)

    run(main)


@pytest.mark.parametrize("loss", ["deleted", "rolled back", "store"])
@pytest.mark.parametrize("seed", range(3))
def test_a_lost_bucket_is_filled_again(loss: str, seed: int) -> None:
    async def main(world: World) -> None:
        bus = await started(world)
        older = world.nats.copy_store()
        world.node("d1").kill()
        world.node("d1").restart()
        await world.sleep(2 * NODE_LEASE_S + world.random("test").random())
        await until_shown(world, bus, ALL, 5)
        if loss == "deleted":
            world.nats.delete(STREAM)
        elif loss == "rolled back":
            # Only this one: as an operator who restores it.
            world.nats.streams[STREAM] = older[STREAM]
        else:
            world.nats.stop()
            world.nats.delete_store()
            world.nats.start()
        assert await until_shown(world, bus, ALL, 4) < 4
        await world.sleep(2 * STATUS_TTL_S)
        assert await shown(bus) == ALL

    run(main, seed)


def test_writes_whose_outcome_is_unknown_do_not_stop_it() -> None:
    async def main(world: World) -> None:
        bus = await started(world)
        world.net.unknown, world.net.late = 0.3, 0.5
        for _ in range(60):
            await world.sleep(1)
            assert set(await shown(bus)) == set(ALL)
        world.net.heal()
        await until_shown(world, bus, ALL, 10)
        assert world.node("r").starts == 1

    run(main)
