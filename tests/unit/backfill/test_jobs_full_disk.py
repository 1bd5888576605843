"""The list of jobs on a full disk: what is refused is not done, and what is done is kept later."""

from __future__ import annotations

import pytest

from tests.unit.backfill.service_rig import started
from tidelog.errors import DiskFull
from tidelog.sim.world import World, run


def test_a_job_that_is_refused_does_not_run() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        node = world.node("backfill")
        await client.submit("a")
        await client.until(world, "a", "running")
        node.disk.full = True
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
        client, clockwork = await started(world)
        node = world.node("backfill")
        await client.submit("a")
        await client.until(world, "a", "running")
        node.disk.full = True
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
