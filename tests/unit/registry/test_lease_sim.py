"""One registry acts, however many run: crash, clean stop, freeze, a lost store, and a swarm."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from tests.unit.registry.happens_before import Takings
from tests.unit.registry.nodes import CLUSTER, build, nodes, pump
from tests.unit.registry.rig import CONFIG, entries, given_within, until_state
from tidelog import failpoints, messages, subjects
from tidelog.errors import Conflict, Unavailable
from tidelog.kv import Bucket
from tidelog.messages import (
    ONLINE,
    PUMP,
    Consumer,
    DdlAppend,
    NodeStatus,
    Register,
    SafePoint,
    SafePointRequest,
    StateRequest,
    TsoRequest,
)
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus
from tidelog.sealed import seal, unseal
from tidelog.sim import Node, World, run
from tidelog.subjects import members_bucket
from tidelog_registry import service
from tidelog_registry.config import RegistryConfig
from tidelog_registry.consumers.store import FILE
from tidelog_registry.lease.tenure import LEASE_S, TAKEOVER_S, AnotherRegistry
from tidelog_registry.nodes.node_state import NODE_LEASE_S

SLACK_S = 1.5


def freeze(world: World, node: Node, seconds: float) -> None:
    """As SIGSTOP does: nothing runs, what comes for it waits."""
    for task in world.loop.tasks_of(node._life):
        world.loop.stall(node.name, task.get_name(), seconds)


def starve(world: World, node: Node, seconds: float) -> None:
    """Only its lease is not renewed: all else of it goes on."""
    world.loop.stall(node.name, "registry.lease/keep", seconds)


async def leads_after(world: World, node: Node) -> float:
    """Virtual seconds until it holds the lease."""
    began = world.loop.time()
    await world.until(lambda: leads(node), 30, f"{node.name} leads")
    return world.loop.time() - began


def leads(node: Node) -> bool:
    status = node.status()
    return isinstance(status, dict) and bool(status.get("lease", {}).get("held"))


def config(node: str) -> RegistryConfig:
    return RegistryConfig(cluster=CLUSTER, node_id=node, http_addr=f"{node}:80")


def test_the_second_says_who_leads_where_and_since_when() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r1").start(service.build, config("r1"))
        await given_within(world, bus, 10)
        world.node("r2").start(service.build, config("r2"))
        await world.until(lambda: bool(world.node("r2").stopped), 5, "the second one stops")
        error = world.node("r2").stopped[0]
        assert isinstance(error, AnotherRegistry)
        assert "registry r1 at r1:80 (since 20" in str(error)
        assert "run one registry for a cluster" in str(error)

    run(main)


@pytest.mark.parametrize("seed", range(3))
def test_how_long_a_start_waits(seed: int) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        r1, r2 = world.node("r1"), world.node("r2")
        r1.start(service.build, CONFIG)
        await given_within(world, bus, 10)
        await world.sleep(NODE_LEASE_S)
        r1.kill()
        r1.restart()
        assert await leads_after(world, r1) < SLACK_S, "its own lease"
        last = await given_within(world, bus, SLACK_S)
        r1.kill()
        r2.start(service.build, CONFIG)
        assert await leads_after(world, r2) < TAKEOVER_S + SLACK_S, "after a crash"
        # It has no copy of the membership: the nodes get a lease time to announce themselves.
        assert await given_within(world, bus, NODE_LEASE_S + SLACK_S) > last
        await r2.stop()
        r1.restart()
        assert await leads_after(world, r1) < SLACK_S, "given back"
        assert await given_within(world, bus, SLACK_S) > last
        assert not r1.failures
        assert not r2.failures

    run(main, seed)


@pytest.mark.parametrize("seed", range(4))
def test_one_that_was_frozen_acts_no_more(seed: int) -> None:
    async def main(world: World) -> None:
        bus, takings, rng = world.ports().bus, Takings(), world.random("test")
        r1, r2 = world.node("r1"), world.node("r2")
        r1.start(service.build, config("r1"))
        world.node("p1").start(build, pump("p1"))
        await until_state(world, bus, "p1", ONLINE)
        oracle = RegistryOracle(bus, CLUSTER, timeout_s=0.7)
        stop = asyncio.Event()
        asking = [asyncio.ensure_future(ask(oracle, takings, stop)) for _ in range(2)]
        await world.until(lambda: len(takings.all) > 50, 10, "timestamps")
        freeze(world, r1, TAKEOVER_S + NODE_LEASE_S + 5)
        before, seen = (await entries(bus))["p1"], len(takings.all)
        await world.sleep(rng.random())
        r2.start(service.build, config("r2"))
        await world.until(
            lambda: len(takings.all) > seen + 50,
            TAKEOVER_S + NODE_LEASE_S + SLACK_S,
            "timestamps of the second one",
        )
        assert not r1.stopped
        world.node("p2").start(build, pump("p2"))
        await world.until(lambda: bool(r1.stopped), 10, "the first one finds out")
        assert "registry r2 at r2:80" in str(r1.stopped[0])
        await until_state(world, bus, "p2", ONLINE)
        stop.set()
        await asyncio.gather(*asking)
        takings.check()
        assert (await entries(bus))["p1"] == before
        assert not r2.failures

    run(main, seed)


def test_one_that_was_frozen_in_its_start_stops() -> None:
    """The bucket is the next one's by then: its membership's start could not come to an end."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        r1, r2 = world.node("r1"), world.node("r2")

        def stands_still() -> None:
            if not r2.starts:
                world.loop.freeze("r1", TAKEOVER_S + NODE_LEASE_S)
                r2.start(service.build, config("r2"))

        failpoints.arm("registry.members.before_fence", stands_still)
        try:
            r1.start(service.build, config("r1"))
            await world.until(lambda: leads(r2), TAKEOVER_S + SLACK_S, "the second one leads")
            await world.until(lambda: bool(r1.stopped), 15, "the first one stops")
        finally:
            failpoints.disarm_all()
        assert "registry r2 at r2:80" in str(r1.stopped[0])
        await given_within(world, bus, NODE_LEASE_S + SLACK_S)
        assert not r2.failures

    run(main)


def test_without_its_lease_a_registry_decides_nothing_and_then_goes_on() -> None:
    async def main(world: World) -> None:
        bus, r1 = world.ports().bus, world.node("r1")
        r1.start(service.build, config("r1"))
        world.node("p1").start(build, pump("p1"))
        await until_state(world, bus, "p1", ONLINE)
        last = await given_within(world, bus, 10)
        starve(world, r1, 3 * LEASE_S)
        await world.sleep(LEASE_S + 0.1)
        status = NodeStatus("p1", kind=PUMP, epoch=1, isAlive=True)
        for verb, body in (
            ("register", messages.encode(Register(status))),
            ("state", messages.encode(StateRequest("p1", "pause"))),
            ("safepoint", messages.encode(SafePointRequest(Consumer("a", "f", 1)))),
            ("ddl-append", messages.encode(DdlAppend(msgspec.Raw(b"{}")))),
            ("tso", messages.encode(TsoRequest(1))),
        ):
            answer = await bus.request(subjects.registry(CLUSTER, verb), body, timeout_s=4)
            with pytest.raises(Unavailable):
                messages.decode_reply(answer.data, msgspec.Struct)
        await world.sleep(2 * LEASE_S)
        assert await given_within(world, bus, SLACK_S) > last
        assert not r1.failures
        assert {s.nodeId: s.state for s in (await nodes(bus)).nodes} == {"p1": ONLINE}

    run(main)


@pytest.mark.parametrize("seconds", [LEASE_S / 2, 3 * LEASE_S])
def test_one_that_was_cut_off_from_its_record_renews_it_when_it_is_back(seconds: float) -> None:
    """Not even why it was not renewed can be asked meanwhile."""

    async def main(world: World) -> None:
        bus, r1 = world.ports().bus, world.node("r1")
        r1.start(service.build, config("r1"))
        last = await given_within(world, bus, 10)
        r1.partition(True)
        await world.sleep(seconds)
        assert not leads(r1) or seconds < LEASE_S
        r1.partition(False)
        assert await given_within(world, bus, SLACK_S) > last
        assert not r1.failures

    run(main)


@pytest.mark.parametrize("seed", range(4))
def test_one_that_is_not_renewed_gives_no_timestamp_beside_the_next(seed: int) -> None:
    """Both hear every request; the first has only lost its lease, and does not know it."""

    async def main(world: World) -> None:
        bus, takings, stop = world.ports().bus, Takings(), asyncio.Event()
        r1, r2 = world.node("r1"), world.node("r2")
        r1.start(service.build, config("r1"))
        await given_within(world, bus, 10)
        oracle = RegistryOracle(bus, CLUSTER, timeout_s=0.7)
        asking = [asyncio.ensure_future(ask(oracle, takings, stop)) for _ in range(2)]
        starve(world, r1, 60)
        r2.start(service.build, config("r2"))
        await leads_after(world, r2)
        await world.sleep(NODE_LEASE_S + 10)
        assert not r1.failures
        stop.set()
        await asyncio.gather(*asking)
        takings.check()
        assert takings.all

    run(main, seed)


def test_consumers_of_an_earlier_epoch_do_not_come_back() -> None:
    """The first registry's directory knows one consumer less than the second one learnt."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        r1, r2 = world.node("r1"), world.node("r2")
        r1.start(service.build, CONFIG)
        await leads_after(world, r1)
        await _pin(bus, "first", 100)
        await r1.stop()
        r2.start(service.build, CONFIG)
        await leads_after(world, r2)
        await world.sleep(1)
        await _pin(bus, "second", 40)
        await r2.stop()
        r1.restart()
        await leads_after(world, r1)
        await world.sleep(1)
        found = {c.name: c.commit_ts for c in (await nodes(bus)).consumers}
        assert found == {"first": 100, "second": 40}

    run(main)


@pytest.mark.parametrize("counted", [True, False], ids=["", "by a release that counts no saves"])
def test_consumers_of_a_restored_directory_do_not_come_back(counted: bool) -> None:
    """It is a copy that was made in the same epoch; a registry may lead for weeks."""

    async def main(world: World) -> None:
        bus, r1 = world.ports().bus, world.node("r1")
        r1.start(service.build, CONFIG)
        await leads_after(world, r1)
        await _pin(bus, "first", 100)
        disk = r1.ports().disk
        copy = {path: disk.read_file(path) for path in disk.listdir("")}
        if not counted:
            kept = unseal(copy[FILE], dict[str, Any])
            del kept["saves"]
            copy[FILE] = seal(kept)
        await _pin(bus, "second", 40)
        await _pin(bus, "first", 70)
        r1.kill()
        r1.disk.restore(copy)
        r1.restart()
        await leads_after(world, r1)
        await world.sleep(1)
        found = {c.name: c.commit_ts for c in (await nodes(bus)).consumers}
        assert found == {"first": 70, "second": 40}

    run(main)


def test_consumers_that_the_bucket_does_not_have_yet_come_back() -> None:
    """The copy in the directory is written first."""

    async def main(world: World) -> None:
        bus, r1 = world.ports().bus, world.node("r1")
        r1.start(service.build, CONFIG)
        await leads_after(world, r1)
        await _pin(bus, "first", 100)
        failpoints.arm("registry.consumers.copied", r1.kill)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await _pin(bus, "second", 40)
        finally:
            failpoints.disarm_all()
        assert not r1.running
        r1.restart()
        await leads_after(world, r1)
        await world.sleep(1)
        found = {c.name: c.commit_ts for c in (await nodes(bus)).consumers}
        assert found == {"first": 100, "second": 40}

    run(main)


def test_one_that_is_not_renewed_tells_no_safe_point_beside_the_next() -> None:
    """It does not know the consumer that the next one has taken up, and whoever asks for the nodes
    may hear it first: a Pump would delete what that consumer has yet to read."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        r1, r2 = world.node("r1"), world.node("r2")
        r1.start(service.build, config("r1"))
        await leads_after(world, r1)
        await _pin(bus, "first", 1000)
        await world.sleep(NODE_LEASE_S + 1)
        assert (await nodes(bus)).safe_point == 1000
        starve(world, r1, 60)
        r2.start(service.build, config("r2"))
        await leads_after(world, r2)
        await _pin(bus, "second", 40)
        await world.sleep(NODE_LEASE_S + 2)
        assert not r1.stopped
        answers = []
        for _ in range(60):
            answers.append(await nodes(bus))
            await world.sleep(0.05)
        assert {one.safe_point for one in answers} == {0, 40}, "both of them answer"
        assert not any(one.settled for one in answers if not one.safe_point)

    run(main)


async def _pin(bus: Bus, name: str, ts: int) -> None:
    body = messages.encode(SafePointRequest(Consumer(name, "f", ts)))
    async with asyncio.timeout(10):
        while True:
            with suppress(Unavailable):
                answer = await bus.request(
                    subjects.registry(CLUSTER, "safepoint"), body, timeout_s=2
                )
                messages.decode_reply(answer.data, SafePoint)
                return
            await asyncio.sleep(0.1)


async def ask(oracle: RegistryOracle, takings: Takings, stop: asyncio.Event) -> None:
    while not stop.is_set():
        await takings.take(oracle, 3)
        await asyncio.sleep(0.02)


def test_what_an_earlier_registry_has_under_way_is_refused() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        r1, r2 = world.node("r1"), world.node("r2")
        r1.start(service.build, CONFIG)
        await given_within(world, bus, 10)
        bucket = Bucket(bus, members_bucket(CLUSTER))
        state = await bucket.state()
        assert state is not None
        r1.kill()
        r2.start(service.build, CONFIG)
        await given_within(world, bus, 10)
        with pytest.raises(Conflict):
            await bucket.put("p9", b"{}", expected_last=state.last_seq)
        assert await entries(bus) == {}

    run(main)


def test_records_that_somebody_deletes_are_written_again() -> None:
    """`nats kv del` leaves a marker, whose revision a write has to replace."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        r1, r2 = world.node("r1"), world.node("r2")
        bucket = Bucket(bus, subjects.registry_bucket(CLUSTER))

        async def deleted() -> None:
            for key in (await bucket.entries())[0]:
                await bucket.delete(key)

        r1.start(service.build, CONFIG)
        last = await given_within(world, bus, 10)
        await deleted()
        await world.sleep(2 * LEASE_S)
        last, before = await given_within(world, bus, SLACK_S), last
        assert last > before
        assert leads(r1)
        assert (await bucket.entries())[0].keys() >= {"lease", "tso"}
        await r1.stop()
        await deleted()
        r2.start(service.build, CONFIG)
        assert await given_within(world, bus, TAKEOVER_S + 10) > last
        assert not r1.failures
        assert not r2.failures

    run(main)


def test_a_lease_rolled_back_or_lost_with_its_store_stays_with_its_holder() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        r1, r2 = world.node("r1"), world.node("r2")
        r1.start(service.build, CONFIG)
        await given_within(world, bus, 10)
        of_r1 = world.nats.copy_store()
        await r1.stop()
        r2.start(service.build, CONFIG)
        last = await given_within(world, bus, 10)
        for store in (of_r1, {}, of_r1):
            world.nats.roll_back(store)
            await world.sleep(2)
            last, before = await given_within(world, bus, SLACK_S), last
            assert last > before
        assert not r2.failures
        r1.restart()
        await world.until(lambda: bool(r1.stopped), 5, "the other one stops")

    run(main)


@pytest.mark.parametrize("seed", range(8))
def test_two_registries_and_faults_never_give_a_timestamp_after_a_larger_one(seed: int) -> None:
    """Two that an orchestrator starts again and again; kills, freezes, cuts, clocks, the server."""

    async def main(world: World) -> None:
        rng, takings, stop = world.random("test"), Takings(), asyncio.Event()
        registries = [world.node("r1"), world.node("r2", skew_ms=-3_000)]
        for node in registries:
            node.start(service.build, config(node.name))
        oracles = [RegistryOracle(world.ports(f"c{n}").bus, CLUSTER, timeout_s=0.7) for n in (1, 2)]
        asking = [asyncio.ensure_future(ask(oracle, takings, stop)) for oracle in oracles * 2]
        world.net.duplicate, world.net.unknown, world.net.late = 0.05, 0.02, 0.5
        for _ in range(30):
            node = rng.choice(registries)
            match rng.randrange(8):
                case 0:
                    node.kill(restart_after_s=rng.random() * 3)
                case 1:
                    freeze(world, node, rng.random() * 2 * TAKEOVER_S)
                case 2:
                    node.partition(cut=True)
                    world.loop.call_later(rng.random() * 8, node.partition, False)
                case 3:
                    node.restart_gracefully(rng.random())
                case 4:
                    node.clock.skew_ms = rng.randrange(-5_000, 5_000)
                case 5:
                    starve(world, node, rng.random() * 2 * TAKEOVER_S)
                case 6:
                    world.nats.stop()
                    await world.sleep(rng.random())
                    world.nats.start()
            await world.sleep(rng.random() * LEASE_S)
        world.net.heal()
        seen = len(takings.all)
        await world.sleep(25)
        stop.set()
        await asyncio.gather(*asking)
        takings.check()
        assert len(takings.all) > seen + 100, "timestamps come again"
        assert all(isinstance(e, AnotherRegistry) for n in registries for e in n.stopped)

    run(main, seed)
