"""The registry's tree in the simulator: joins, leases, restarts, a lost store."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.registry.nodes import CLUSTER, build, drainer, nodes, pump
from tests.unit.registry.rig import CONFIG, entries, join, operate, play, until_state
from tidelog import messages, subjects
from tidelog.errors import BadInput, Refused
from tidelog.kv import Bucket
from tidelog.membership import Announce, Member
from tidelog.messages import (
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    Consumer,
    SafePoint,
    SafePointRequest,
)
from tidelog.ports import Bus
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX
from tidelog_registry import service


def test_a_pump_is_online_only_after_every_living_drainer_took_it_as_a_source() -> None:
    async def main(world: World, bus: Bus) -> None:
        d = drainer("d1")
        d.deaf = True
        world.node("d1").start(build, d)
        await world.until(lambda: bool(d.told), 5, "the Drainer registers")
        p = pump("p1")
        world.node("p1").start(build, p)
        await until_state(world, bus, "p1", JOINING)
        assert (await entries(bus))["p1"].state == JOINING
        await world.sleep(8)
        assert p.told == []
        d.deaf = False
        await world.until(lambda: bool(p.told), 5, "the Pump goes online")
        assert d.added == ["p1"]
        assert p.told[0][0] == ONLINE
        assert (await entries(bus))["p1"].state == ONLINE

    play(main)


def test_a_drainer_whose_lease_ran_out_is_not_waited_for() -> None:
    async def main(world: World) -> None:
        world.node("r").start(service.build, CONFIG)
        d, p = drainer("d1"), pump("p1")
        world.node("d1").start(build, d)
        await world.until(lambda: bool(d.told), 5, "the Drainer registers")
        world.node("d1").kill()
        started = world.loop.time()
        world.node("p1").start(build, p)
        await world.until(lambda: bool(p.told), 6, "the Pump goes online")
        assert world.loop.time() - started > 2.0

    run(main)


def test_a_restarted_pump_needs_no_new_join_and_leaves_its_entry_as_it_was() -> None:
    async def main(world: World, bus: Bus) -> None:
        p, d = pump("p1"), drainer("d1")
        world.node("p1").start(build, p)
        await world.until(lambda: bool(p.told), 5, "online")
        before = await entries(bus)
        world.node("d1").start(build, d)
        await world.until(lambda: bool(d.told), 5, "the Drainer registers")
        p.high_ts = 77
        world.node("p1").kill()
        p.told.clear()
        world.node("p1").restart()
        await world.until(lambda: bool(p.told), 5, "online again")
        assert await entries(bus) == before
        assert d.added == []

    play(main)


def test_a_failed_join_is_tombstoned_but_not_if_the_pump_brought_data() -> None:
    async def main(world: World, bus: Bus) -> None:
        d = drainer("d1")
        d.deaf = True
        world.node("d1").start(build, d)
        await world.until(lambda: bool(d.told), 5, "the Drainer registers")
        for script in (pump("new"), pump("old", high_ts=5), pump("restarted", log_ts=5)):
            world.node(script.node).start(build, script)
            await until_state(world, bus, script.node, JOINING)
            world.node(script.node).kill()
        await until_state(world, bus, "new", OFFLINE, 15)
        await world.sleep(5)
        found = await entries(bus)
        assert found["new"].state == OFFLINE
        assert found["old"].state == found["restarted"].state == JOINING

    play(main)


def test_one_found_as_joining_that_now_tells_of_binlogs_is_not_taken_for_new() -> None:
    """An entry that was rolled back to before it ever wrote, while no copy of it is left."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        bucket = Bucket(bus, subjects.members_bucket(CLUSTER))
        await bucket.create()
        entry = msgspec.json.encode(Member("p1", JOINING, 1))
        await bucket.put("p1", entry, expected=0)
        d, p = drainer("d1"), pump("p1", log_ts=5)
        d.deaf = True
        world.node("d1").start(build, d)
        world.node("r").start(service.build, CONFIG)
        await world.until(lambda: bool(d.told), 5, "the Drainer registers")
        world.node("p1").start(build, p)
        await world.sleep(3)
        world.node("p1").kill()
        await world.sleep(12)
        assert (await entries(bus))["p1"].state == JOINING

    run(main)


def test_a_clean_stop_pauses_and_a_lease_that_ran_out_is_only_a_mark() -> None:
    async def main(world: World, bus: Bus) -> None:
        await join(world, pump("p1"), pump("p2"))
        await world.node("p1").stop()
        world.node("p2").kill()
        await until_state(world, bus, "p1", PAUSED)
        await world.sleep(8)
        found = {s.nodeId: s for s in (await nodes(bus)).nodes}
        assert (found["p2"].state, found["p2"].isAlive) == (ONLINE, False)
        world.node("p1").restart()
        await until_state(world, bus, "p1", ONLINE)

    play(main)


def test_operators_pause_resume_and_take_offline() -> None:
    async def main(world: World, bus: Bus) -> None:
        p = pump("p1")
        await join(world, p)
        await operate(bus, "p1", "pause")
        await until_state(world, bus, "p1", PAUSED)
        await operate(bus, "p1", "resume")
        await world.until(lambda: p.told[-1][0] == ONLINE, 5, "resumed")
        await world.sleep(5)
        await until_state(world, bus, "p1", ONLINE)
        with pytest.raises(BadInput):
            await operate(bus, "nobody", "pause")
        world.node("p1").kill()
        with pytest.raises(Refused, match="reachable"):
            await operate(bus, "p1", "offline", accept_loss=True)
        await world.sleep(7)
        gone = await operate(bus, "p1", "offline", accept_loss=True)
        assert gone.state == OFFLINE
        assert (await entries(bus))["p1"].state == OFFLINE
        with pytest.raises(Refused):
            await operate(bus, "p1", "resume")

    play(main)


def test_a_pump_goes_offline_only_after_every_consumer_passed_its_last_commit() -> None:
    async def main(world: World, bus: Bus) -> None:
        p, d = pump("p1"), drainer("d1")
        p.max_commit_ts = p.high_ts = 100
        d.resolved_ts = 50
        for script in (p, d):
            world.node(script.node).start(build, script)
        await until_state(world, bus, "p1", ONLINE, 20)
        await operate(bus, "p1", "offline")
        await world.until(lambda: [s for s, _ in p.told][-1:] == ["closing"], 5, "closing")
        d.resolved_ts = 100
        await world.sleep(5)
        await until_state(world, bus, "p1", "closing")
        d.resolved_ts, p.max_commit_ts = 100, 120
        assert p.agent is not None
        p.reached = OFFLINE
        await p.agent.tell(Announce())
        await world.sleep(5)
        await until_state(world, bus, "p1", "closing")
        d.resolved_ts = 120
        await until_state(world, bus, "p1", OFFLINE)

    play(main)


def test_the_safe_point_waits_for_every_consumer_until_it_is_removed() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus

        async def safe_point(body: SafePointRequest) -> int:
            answer = await bus.request(
                subjects.registry(CLUSTER, "safepoint"), messages.encode(body), timeout_s=3.0
            )
            return messages.decode_reply(answer.data, SafePoint).safe_point

        world.node("r").start(service.build, CONFIG)
        await world.sleep(1)
        assert await safe_point(SafePointRequest()) == 0
        await world.sleep(6)
        assert await safe_point(SafePointRequest()) == TS_MAX
        d = drainer("d1")
        d.resolved_ts, d.consumers = 900, [Consumer("a1", "f", 700)]
        world.node("d1").start(build, d)
        await world.sleep(9)
        assert await safe_point(SafePointRequest()) == 700
        with pytest.raises(BadInput, match="'a1' is a node"):  # only it knows what it has read
            await safe_point(SafePointRequest(Consumer("a1", "f", 900)))
        pinned = Consumer("backfill", "f", 300)
        assert await safe_point(SafePointRequest(pinned)) == 300
        world.node("r").kill()
        world.node("d1").kill()
        world.nats.delete_store()
        world.node("r").restart()
        await world.sleep(1)
        assert await safe_point(SafePointRequest()) == 0
        await world.sleep(7)
        assert await safe_point(SafePointRequest()) == 300
        assert await safe_point(SafePointRequest(pinned, remove=True)) == 700

    run(main)


@pytest.mark.parametrize("registry_dies", [False, True])
@pytest.mark.parametrize("pump_down", [False, True])
def test_a_deleted_store_is_filled_again_within_a_lease(
    registry_dies: bool, pump_down: bool
) -> None:
    async def main(world: World, bus: Bus) -> None:
        scripts = [pump("p1"), pump("p2"), drainer("d1")]
        for script in scripts:
            world.node(script.node).start(build, script)
        for script in scripts:
            await until_state(world, bus, script.node, ONLINE)
        await operate(bus, "p2", "pause")
        await until_state(world, bus, "p2", PAUSED)
        before = await entries(bus)
        await world.sleep(5)
        if pump_down:
            world.node("p1").kill()
        if registry_dies:
            world.node("r").kill()
        world.nats.delete_store()
        if registry_dies:
            world.node("r").restart()
        await world.sleep(2)
        assert not (await nodes(bus)).settled
        late = pump("p3")
        world.node("p3").start(build, late)
        await world.sleep(3.5)
        assert late.told == []
        await world.sleep(4)
        after = await entries(bus)
        assert {k: after[k].state for k in before} == {k: m.state for k, m in before.items()}
        assert (await nodes(bus)).settled
        await world.until(lambda: bool(late.told), 6, "the late Pump goes online")

    play(main)


def test_a_rolled_back_bucket_is_made_anew_so_that_readers_notice() -> None:
    async def main(world: World, bus: Bus) -> None:
        bucket = Bucket(bus, subjects.members_bucket(CLUSTER))
        p1 = pump("p1")
        await join(world, p1)
        old, created = world.nats.copy_store(), (await bucket.state())
        p2 = pump("p2")
        await join(world, p2)
        world.nats.roll_back(old)
        await world.sleep(3)
        now = await bucket.state()
        assert created is not None
        assert now is not None
        assert now.created != created.created
        assert {k: m.state for k, m in (await entries(bus)).items()} == {"p1": ONLINE, "p2": ONLINE}

    play(main)


def test_everything_lost_is_rebuilt_from_what_the_nodes_announce() -> None:
    async def main(world: World, bus: Bus) -> None:
        p, d = pump("p1"), drainer("d1")
        await join(world, p, d)
        world.node("r").kill()
        world.nats.delete_store()
        told = len(p.told)
        world.node("another").start(service.build, CONFIG)
        await world.sleep(8)
        assert (await entries(bus))["p1"].state == ONLINE
        assert JOINING not in [state for state, _ in p.told[told:]], "it was online all the time"
        assert {s.nodeId for s in (await nodes(bus)).nodes if s.isAlive} == {"p1", "d1"}

    play(main)


@pytest.mark.parametrize("seed", range(6))
def test_joins_come_through_a_lossy_network_and_a_dying_registry(seed: int) -> None:
    async def main(world: World) -> None:
        rng = world.random("test")
        world.net.loss, world.net.duplicate, world.net.unknown = 0.05, 0.05, 0.1
        registry = world.node("r")
        registry.start(service.build, CONFIG)
        scripts = [pump("p1"), pump("p2"), pump("p3"), drainer("d1"), drainer("d2")]
        for script in scripts:
            world.node(script.node).start(build, script)
            await world.sleep(rng.random() * 2)
            registry.kill(restart_after_s=rng.random())
            await world.sleep(rng.random() * 2)
        world.net.heal()
        for script in scripts:
            await until_state(world, world.ports().bus, script.node, ONLINE, 60)
        assert not registry.stopped
        assert not registry.failures

    run(main, seed)


def test_nobody_takes_the_name_that_stands_for_a_feeds_drainers() -> None:
    async def main(world: World, bus: Bus) -> None:
        d = drainer("d1")
        d.resolved_ts, d.consumers = 900, [Consumer("drainer", "f", 100)]
        world.node("d1").start(build, d)
        await world.until(lambda: bool(d.told), 10, "it is registered")
        await world.sleep(3)
        body = messages.encode(SafePointRequest(Consumer("drainer", "f", 100)))
        answer = await bus.request(subjects.registry(CLUSTER, "safepoint"), body, timeout_s=3.0)
        with pytest.raises(BadInput):
            messages.decode_reply(answer.data, SafePoint)
        assert (await nodes(bus)).consumers == [Consumer("drainer", "f", 900)]

    play(main)
