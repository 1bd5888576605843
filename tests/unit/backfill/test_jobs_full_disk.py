"""The list of jobs on a full disk: what is refused is not done, and what is done is kept later."""

from __future__ import annotations

import pytest

from tests.unit.backfill.service_rig import Client, Clockwork, started
from tests.unit.registry.nodes import CLUSTER, nodes
from tidelog.errors import DeadlineExceeded, DiskFull
from tidelog.sim import Node
from tidelog.sim.world import World, run
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry


async def running_on_a_full_disk(world: World) -> tuple[Client, Clockwork, Node]:
    """The job a."""
    client, clockwork = await started(world)
    node = world.node("backfill")
    await client.submit("a")
    await client.until(world, "a", "running")
    node.disk.full = True
    return client, clockwork, node


def test_a_job_that_is_refused_does_not_run() -> None:
    async def main(world: World) -> None:
        client, clockwork, node = await running_on_a_full_disk(world)
        with pytest.raises(DiskFull):
            await client.submit("b")
        assert [job.id for job in await client.all()] == ["a"]
        node.disk.full = False
        await client.until(world, "a", "done")
        await world.sleep(20)
        assert clockwork.began == ["a"]

    run(main, 1)


def test_the_service_outlives_all_that_it_refuses() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        world.node("backfill").disk.full = True
        for number in range(9):
            with pytest.raises(DiskFull):
                await client.submit(f"b{number}")
            await world.sleep(1)
        assert await client.all() == []
        world.node("backfill").disk.full = False
        await client.submit("c")
        await client.until(world, "c", "done")
        assert clockwork.began == ["c"]

    run(main, 2)


def test_a_job_whose_cancel_fails_is_shown_as_it_is() -> None:
    async def main(world: World) -> None:
        client, clockwork, node = await running_on_a_full_disk(world)
        with pytest.raises(DiskFull):
            await client.cancel("a")
        status = await client.one("a")
        assert (status.state, status.ended, clockwork.running) == ("running", 0, ["a"])
        node.disk.full = False
        assert (await client.cancel("a")).state == "cancelled"
        await world.sleep(2)
        assert clockwork.running == []

    run(main, 3)


def test_an_end_is_kept_and_the_next_job_begins_once_there_is_room() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        node = world.node("backfill")
        await client.submit("a")
        await client.submit("b")
        await client.until(world, "a", "running")
        node.disk.full = True
        await client.until(world, "a", "done")
        await world.sleep(30)
        waiting = await client.one("b")
        assert (waiting.state, waiting.tries, clockwork.began) == ("queued", 0, ["a"])
        node.disk.full = False
        await client.until(world, "b", "running")
        node.kill()
        clockwork.running.clear()
        node.restart()
        await world.sleep(1)
        await client.until(world, "b", "done")
        assert clockwork.began == ["a", "b", "b"], "the end of a was kept"

    run(main, 4)


def test_what_a_job_needs_is_held_on_though_its_cancel_was_under_way() -> None:
    """The registry is told of it while the slow disk has not said yet that it is full."""

    async def main(world: World) -> None:
        config = RegistryConfig(cluster=CLUSTER, oracle="embedded")
        world.node("registry").start(build_registry, config)
        await world.sleep(8)
        client, clockwork = await started(world)
        clockwork.step_s = 30.0
        await client.submit("a")
        await client.until(world, "a", "running")
        await world.sleep(35)
        disk = world.node("backfill").disk
        disk.slow_s = 6.0
        disk.fail_nth(2, "full")
        with pytest.raises((DiskFull, DeadlineExceeded)):
            await client.cancel("a")
        disk.slow_s = 0.0
        await world.sleep(20)
        assert (await client.one("a")).state == "running"
        held = [one.name for one in (await nodes(world.ports().bus)).consumers]
        assert held == ["job-a"]

    run(main, 5)
