"""Operators' orders to a whole cluster under load: nothing is lost, and each does what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.planted.schedules import calm
from tests.quiet import quiet
from tests.simulation.chaos import MEMBERS_STREAM
from tests.simulation.cluster import CLUSTER, FEED, MAX_STEPS, Cluster
from tests.simulation.orders import Orders
from tests.simulation.plan import Appliers
from tidelog import subjects
from tidelog.lease import TAKEOVER_S
from tidelog.messages import (
    CLOSING,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
)
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX

Act = Callable[["Rig"], Awaitable[None]]


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> None:
    quiet()


ALONE = Appliers(lanes=2)


class Rig:
    """A calm cluster of two Pumps, a third that may come late, and its load."""

    def __init__(self, world: World, appliers: Appliers) -> None:
        self.world = world
        plan = calm(1, pumps=2, late=1, transactions=400, rate=40.0, clients=8)
        self.cluster = Cluster(world, replace(plan, appliers=appliers))
        orders = Orders(world, CLUSTER)
        self.operate, self.nodes = orders.operate, orders.nodes

    async def live(self, act: Act) -> None:
        cluster, stop = self.cluster, asyncio.Event()
        cluster.start()
        await cluster.create_feed()
        running = self.world.loop.create_task(cluster._load(stop))
        counts = cluster.workload.counts
        await self.world.until(lambda: counts.started > 20, 60, "the load")
        try:
            await act(self)
            await cluster._safety(running)
            cluster.workload.end()
            await cluster._liveness(running)
        finally:
            stop.set()
        await asyncio.wait([running])
        cluster._verdict()
        assert cluster.findings.clean, cluster.findings.text(1)

    async def until_state(self, node: str, state: str, within_s: float = 30.0) -> None:
        deadline = self.world.loop.time() + within_s
        while True:
            found = {status.nodeId: status for status in (await self.nodes()).nodes}
            if node in found and found[node].state == state:
                return
            assert self.world.loop.time() < deadline, (state, found.get(node))
            await self.world.sleep(0.1)

    def last_sequence(self) -> int:
        return self.world.nats.streams[subjects.changes_stream(FEED)].last_seq

    def applied_ts(self) -> int:
        checkpoint = self.cluster.database.checkpoint
        return checkpoint.commit_ts if checkpoint is not None else 0


def play(act: Act, appliers: Appliers = ALONE) -> None:
    async def main(world: World) -> None:
        await Rig(world, appliers).live(act)

    run(main, 1, max_steps=MAX_STEPS)


@pytest.mark.parametrize("dies", [False, True])
def test_a_paused_drainer_publishes_nothing_and_lets_pumps_join(dies: bool) -> None:
    async def act(rig: Rig) -> None:
        await rig.operate("drainer", "pause")
        await rig.until_state("drainer", PAUSED)
        ends_at = rig.last_sequence()
        if dies:
            rig.cluster.drainer.kill()
            rig.cluster.drainer.restart()
            rig.cluster.registry.kill(restart_after_s=8)
        await rig.world.sleep(12)
        rig.cluster.start_pump(rig.cluster.late[0])
        await rig.until_state("pump-3", ONLINE)
        await rig.until_state("drainer", PAUSED)
        assert rig.last_sequence() == ends_at
        await rig.operate("drainer", "resume")

    play(act)


@pytest.mark.parametrize("dies", [False, True])
def test_a_paused_applier_applies_nothing_and_goes_on_where_it_was(dies: bool) -> None:
    async def act(rig: Rig) -> None:
        await rig.operate("applier", "pause")
        await rig.until_state("applier", PAUSED)
        applied, commits = rig.applied_ts(), rig.cluster.database.commits
        if dies:
            rig.cluster.applier.kill()
            rig.cluster.applier.restart()
        await rig.world.sleep(12)
        await rig.until_state("applier", PAUSED)
        assert (rig.applied_ts(), rig.cluster.database.commits) == (applied, commits)
        await rig.operate("applier", "resume")

    play(act)


def test_the_merge_waits_for_a_pump_that_stopped_and_says_for_whom() -> None:
    async def act(rig: Rig) -> None:
        pump = rig.cluster.pumps[0]
        await rig.operate("pump-1", "pause")
        await rig.until_state("pump-1", PAUSED)
        before = rig.applied_ts()
        await rig.world.sleep(5)
        assert rig.applied_ts() > before, "while it lives, it holds nobody back"
        await pump.stop()
        await rig.world.sleep(10)
        before = rig.applied_ts()
        await rig.world.sleep(10)
        assert rig.applied_ts() == before
        nodes = {status.nodeId: status for status in (await rig.nodes()).nodes}
        assert "pump-1" in nodes["drainer"].detail
        assert (nodes["pump-1"].state, nodes["pump-1"].isAlive) == (PAUSED, False)
        pump.restart()

    play(act)


def test_a_pump_leaves_under_load_and_comes_back_as_a_new_one() -> None:
    async def act(rig: Rig) -> None:
        rig.cluster.start_pump(rig.cluster.late[0])
        await rig.until_state("pump-3", ONLINE)
        await rig.operate("pump-1", "offline")
        await rig.until_state("pump-1", OFFLINE)
        assert rig.cluster.pumps[0].running, "its directory can be read"
        rig.cluster.pumps[0].kill()
        rig.cluster.pumps[0].restart()
        await rig.until_state("pump-1", ONLINE)
        await rig.operate("pump-2", "offline")
        await rig.until_state("pump-2", OFFLINE)

    play(act)


def test_an_operator_takes_out_the_drainer_and_its_readers_and_starts_them_again() -> None:
    async def act(rig: Rig) -> None:
        for node in ("applier", "auditor"):
            await rig.operate(node, "offline")
        await rig.until_state("applier", OFFLINE)
        assert [c.name for c in (await rig.nodes()).consumers] == ["auditor", "drainer"]
        rig.cluster.auditor.kill()
        await rig.world.sleep(5)
        await rig.operate("auditor", "offline")
        assert [c.name for c in (await rig.nodes()).consumers] == ["drainer"]
        await rig.operate("drainer", "offline")
        await rig.until_state("drainer", OFFLINE)
        ends_at = rig.last_sequence()
        # A Pump forgets no feed that pulled in the last minute.
        await rig.world.sleep(90)
        known = await rig.nodes()
        assert (known.consumers, known.feeds, known.safe_point) == ([], {}, TS_MAX)
        assert rig.last_sequence() == ends_at
        assert rig.cluster.drainer.running
        for process in (rig.cluster.drainer, rig.cluster.applier, rig.cluster.auditor):
            process.kill()
            process.restart()
        await rig.until_state("drainer", ONLINE)

    play(act)


def test_a_drainer_that_never_comes_back_holds_no_join_up() -> None:
    async def act(rig: Rig) -> None:
        rig.cluster.drainer.kill(restart_after_s=15)
        rig.cluster.start_pump(rig.cluster.late[0])
        await rig.world.sleep(1)
        await rig.until_state("pump-3", JOINING, 1)
        await rig.until_state("pump-3", ONLINE, 5)

    play(act)


def test_a_pump_that_waits_for_a_reader_leaves_when_an_operator_takes_that_out() -> None:
    async def act(rig: Rig) -> None:
        rig.cluster.auditor.kill()
        await rig.world.sleep(5)
        await rig.operate("pump-1", "offline")
        await rig.world.sleep(8)
        nodes = {status.nodeId: status for status in (await rig.nodes()).nodes}
        assert nodes["pump-1"].state == CLOSING
        assert "waits for consumer auditor of feed main" in nodes["pump-1"].detail["closing"]
        await rig.operate("auditor", "offline")
        await rig.until_state("pump-1", OFFLINE)
        rig.cluster.auditor.restart()

    play(act)


def test_a_pump_that_only_the_drainer_remembers_can_be_let_go() -> None:
    """Seed 464: it was drained and died for good; then the membership was lost, bucket and copy.
    The merge waited for it, and no registry knew whom an operator meant."""

    async def act(rig: Rig) -> None:
        cluster, pump = rig.cluster, rig.cluster.pumps[0]
        await rig.operate("pump-1", "pause")
        await rig.until_state("pump-1", PAUSED)
        await rig.world.sleep(5)
        pump.kill()
        cluster.operator.gone.add(pump)
        cluster.registry.kill(restart_after_s=1.0)
        rig.world.nats.delete(MEMBERS_STREAM)
        cluster.lose_copy()
        await rig.world.sleep(20)
        before = rig.applied_ts()
        nodes = {status.nodeId: status for status in (await rig.nodes()).nodes}
        assert "pump-1" in nodes["drainer"].detail
        assert (nodes["pump-1"].state, nodes["pump-1"].isAlive) == (JOINING, False)
        answer = await rig.operate("pump-1", "offline", accept_loss=True)
        assert any("may be lost" in line for line in answer.may_lose)
        await rig.world.until(lambda: rig.applied_ts() > before, 10, "the merge goes on")

    play(act)


def test_an_applier_that_led_before_holds_up_nobody_with_what_it_knew() -> None:
    """Seed 88: it stood by again, and its word of long ago went with each heartbeat over that of
    the one who leads. Pumps kept what was read, and one could not leave."""

    async def act(rig: Rig) -> None:
        cluster = rig.cluster
        first = cluster.leading(cluster.appliers)
        rig.world.loop.freeze(first.name, TAKEOVER_S + 2)
        await rig.world.sleep(TAKEOVER_S + 6)
        assert cluster.leading(cluster.appliers) is not first
        stood = rig.applied_ts()
        await rig.world.sleep(6)
        for _ in range(60):
            read = {consumer.name: consumer.commit_ts for consumer in (await rig.nodes()).consumers}
            assert read["applier"] > stood
            await rig.world.sleep(0.1)

    play(act, Appliers(standby=True))
