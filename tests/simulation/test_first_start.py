"""Where a feed and its Applier begin: a feed that begins late, a stream that nobody had read."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from tests.simulation.cluster import CLUSTER, FEED, MAX_STEPS, Cluster
from tests.simulation.plan import draw
from tidelog.feeds import NOW
from tidelog.sim import World, run
from tidelog_applier.config import ApplierConfig
from tidelog_applier.service import build as build_applier
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.service import build as build_drainer
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry


class Calm:
    """A cluster without faults, whose services the test starts one by one."""

    def __init__(self, world: World, *, follow: bool) -> None:
        plan = next(p for p in map(draw, range(900)) if not p.faults and p.follow == follow)
        self.cluster = Cluster(world, plan)
        world.net.heal()
        self.cluster.database.faults.heal()
        self.stop = asyncio.Event()
        self.running: asyncio.Task[None]
        self.creating: asyncio.Task[None]
        self.world = world
        self.follow = follow

    def start(self, *, initial_commit_ts: int = 0) -> None:
        cluster = self.cluster
        cluster.registry.start(
            build_registry, RegistryConfig(node_id="registry", cluster=CLUSTER, data_dir="")
        )
        for pump in cluster.pumps[: cluster.plan.pumps]:
            cluster.start_pump(pump)
        config = DrainerConfig(node_id="drainer", cluster=CLUSTER, feed=FEED, data_dir="")
        cluster.drainer.start(build_drainer, config)
        self.creating = self.world.loop.create_task(cluster.create_feed(initial_commit_ts))

    def start_applier(self) -> None:
        config = partial(ApplierConfig, node_id="applier", cluster=CLUSTER, data_dir="")
        self.cluster.applier.start(build_applier, config(feed=FEED, downstream="sim:"))

    async def load(self) -> None:
        """All transactions of the plan. Its clients die, too: it goes on answering for them."""
        workload = self.cluster.workload
        running = self.running = self.world.loop.create_task(workload.run(self.stop))
        await self.world.until(lambda: running.done() or workload.finished.is_set(), 120, "load")
        workload.end()

    def applied_ts(self) -> int:
        checkpoint = self.cluster.database.checkpoint
        return checkpoint.commit_ts if checkpoint is not None else 0

    async def everything_arrives(self) -> None:
        last = self.cluster.ledger.last_commit_ts
        await self.world.until(lambda: self.applied_ts() >= last, 60, "everything")
        self.stop.set()
        await self.running
        self.cluster._verdict()
        # There is no auditor here, whose checker would have seen the stream.
        assert self.cluster.database.violations == []
        assert self.cluster.findings.other == []


@pytest.mark.parametrize("follow", [False, True])
def test_a_feed_that_begins_now_reaches_an_empty_downstream(follow: bool) -> None:
    async def main(world: World) -> None:
        calm = Calm(world, follow=follow)
        calm.start(initial_commit_ts=NOW)
        calm.start_applier()
        if not follow:
            await world.until(lambda: calm.applied_ts() > 0, 60, "the feed's beginning")
        await calm.load()
        await calm.everything_arrives()
        assert calm.cluster.applier.starts == 1

    run(main, 3, max_steps=MAX_STEPS)


def test_a_stream_lost_before_its_reader_came_is_not_taken_for_everything() -> None:
    async def main(world: World) -> None:
        calm = Calm(world, follow=False)
        calm.start()
        await calm.load()
        await world.sleep(8)
        world.nats.stop()
        world.nats.delete_store()
        world.nats.start()
        await world.sleep(15)
        drainer = calm.cluster.drainer
        assert "no consumer is registered" in drainer.service.status()["publisher"]["error"]
        calm.start_applier()
        await world.sleep(20)
        assert calm.applied_ts() == 0
        drainer.kill()
        drainer.restart()
        await calm.everything_arrives()

    run(main, 3, max_steps=MAX_STEPS)
