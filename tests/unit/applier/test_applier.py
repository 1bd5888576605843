"""The Applier in the simulator: a published feed arrives once, over faults and restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.applier.publisher import FEED, Publisher, create
from tidelog import subjects
from tidelog.changes import Event, schema_key
from tidelog.downstream import Checkpoint
from tidelog.kv import Bucket
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


def test_rows_wait_visibly_for_a_structure_that_is_not_there() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        bus = world.ports("drainer").bus
        publisher = Publisher(bus)
        await publisher.begin()
        bucket = Bucket(bus, subjects.schemas_bucket(FEED))
        entry = await bucket.get(schema_key("d", "t", 1))
        assert entry is not None
        await bucket.delete(entry.key)
        node = world.node("applier")
        node.start(build, CONFIG)
        await publisher.rows(t=[create(1, 1)])

        def waits() -> bool:
            status = node.service.status() if node.service is not None else {}
            return "structure of d.t at version 1" in str(status)

        await world.until(waits, 30, "the reason in the status")
        await bucket.put(entry.key, entry.value)
        await world.until(lambda: len(database.rows("d", "t")) == 1, 30, "the row")
        assert node.starts == 1
        assert "structure of" not in str(node.service.status())

    run(main, 3)


def _at(commit_ts: int) -> Checkpoint:
    return Checkpoint(commit_ts, consistent=True, feed=FEED)
