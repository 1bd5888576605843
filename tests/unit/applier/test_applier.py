"""The Applier in the simulator: a published feed arrives once, over faults and restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.applier.publisher import FEED, Publisher, create
from tidelog.changes import Event
from tidelog.downstream import Checkpoint
from tidelog.errors import Stopped
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.world import World, run
from tidelog_applier.config import ApplierConfig
from tidelog_applier.service import build

CONFIG = ApplierConfig(feed=FEED, downstream="sim:", group_rows=7)


def world_with_database(world: World) -> SimDatabase:
    database = SimDatabase(world.random("database"), world.trace)
    world.open_downstream = lambda url, life: database.open(life)
    return database


async def fill(publisher: Publisher, count: int) -> None:
    for number in range(count):
        added = Event("c", 0, None, None, {"v": number % 3})
        await publisher.rows(t=[create(number, number)], bag=[added])
        if number % 4 == 3:
            row: dict[str, Any] = {"id": number, "v": number}
            moved = Event("u", 0, None, row, {"id": number + 1000, "v": -number})
            gone = Event("d", 0, None, {"v": 0})
            await publisher.rows(t=[moved], bag=[gone])
        await asyncio.sleep(0.02)


def check(database: SimDatabase, count: int) -> None:
    assert database.violations == []
    moved = [number for number in range(count) if number % 4 == 3]
    rows = {row["id"]: row["v"] for row in database.rows("d", "t")}
    kept = {n: n for n in range(count) if n % 4 != 3}
    assert rows == kept | {n + 1000: -n for n in moved}
    assert len(database.rows("d", "bag")) == count - len(moved)


@pytest.mark.parametrize("seed", range(12))
def test_everything_arrives_once_over_faults_and_restarts(seed: int) -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        database.faults.refused = database.faults.unknown = 0.05
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        node = world.node("applier")
        node.start(build, CONFIG)
        filling = asyncio.ensure_future(fill(publisher, 60))
        rng = world.random("chaos")
        while not filling.done():
            await world.sleep(0.1 + rng.random())
            node.kill()
            node.restart()
        await filling
        database.faults.heal()
        target = publisher.commit_ts

        def arrived() -> bool:
            return database.checkpoint is not None and database.checkpoint.commit_ts >= target

        await world.until(arrived, 60, "the last commit")
        check(database, 60)

    run(main, seed)


def test_watermarks_alone_move_the_checkpoint_and_a_stop_saves_it() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        node = world.node("applier")
        node.start(build, CONFIG)
        await publisher.watermark(500)
        await world.until(lambda: database.checkpoint == _at(500), 10, "a saved watermark")
        await publisher.watermark(600)
        await world.sleep(1)
        await node.stop()
        assert database.checkpoint == _at(600)
        assert database.commits <= 4

    run(main, 1)


def test_an_unreachable_database_is_waited_for() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        database.faults.refused = 1.0
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        node = world.node("applier")
        node.start(build, CONFIG)
        await world.sleep(120)
        assert node.running
        assert "refuses" in str(node.service.status()["applier"]["error"])
        database.faults.heal()
        await world.until(lambda: len(database.tables) == 2, 30, "the tables")
        assert node.starts == 1

    run(main, 2)


def test_rows_without_a_published_structure_stop_it() -> None:
    async def main(world: World) -> None:
        world_with_database(world)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        node = world.node("applier")
        node.start(build, CONFIG)
        await publisher.rows(unknown=[create(1, 1)])
        await world.until(lambda: bool(node.stopped), 60, "a typed stop")
        assert isinstance(node.stopped[0], Stopped)
        assert "structure of d.unknown" in node.stopped[0].message

    run(main, 3)


def _at(commit_ts: int) -> Checkpoint:
    return Checkpoint(commit_ts, consistent=True, feed=FEED)
