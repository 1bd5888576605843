"""The Applier in the simulator: a published feed arrives once, over faults and restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.unit.applier.shapes import column, ddl, table
from tidelog import changes, subjects
from tidelog.changes import DdlMessage, Event, MarkedTxn, Marker, RowMessage, Watermark
from tidelog.downstream import Checkpoint
from tidelog.errors import Stopped
from tidelog.kv import Bucket
from tidelog.ports import Bus, Outgoing, StreamConfig
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.world import World, run
from tidelog_applier.config import ApplierConfig
from tidelog_applier.service import build

FEED = "shop"
T = table("t", column("id", "int(11)"), column("v", "int(11)"), key=("id",), number=10)
BAG = table("bag", column("v", "int(11)"), number=11)
CONFIG = ApplierConfig(feed=FEED, downstream="sim:", group_rows=7)


class Publisher:
    """What a Drainer leaves in the stream."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.stream = subjects.changes_stream(FEED)
        self.commit_ts = 0

    async def begin(self) -> None:
        await self._bus.stream_create(StreamConfig(self.stream, (f"changes.{FEED}.>",)))
        bucket = Bucket(self._bus, subjects.schemas_bucket(FEED))
        await bucket.create()
        for one in (T, BAG):
            key = changes.schema_key("d", one.name, one.version)
            await bucket.put(key, msgspec.json.encode(one))
        for one in (T, BAG):
            await self.ddl(ddl("create_table", (None, one)))

    async def ddl(self, message: DdlMessage) -> None:
        commit_ts = self.commit_ts + 1
        message = msgspec.structs.replace(message, commit_ts=commit_ts)
        subject = subjects.changes_ddl(FEED, "d", "t")
        await self._batch(commit_ts, [Outgoing(subject, msgspec.json.encode(message))])

    async def rows(self, **events: list[Event]) -> None:
        """One transaction: events by table, whose commit_ts is filled in."""
        commit_ts = self.commit_ts + 1
        bodies = []
        for name, found in events.items():
            stamped = [msgspec.structs.replace(event, commit_ts=commit_ts) for event in found]
            body = RowMessage("d", name, 1, stamped)
            subject = subjects.changes_row(FEED, "d", name)
            bodies.append(Outgoing(subject, msgspec.json.encode(body)))
        await self._batch(commit_ts, bodies)

    async def watermark(self, resolved_ts: int) -> None:
        body = Watermark(resolved_ts, self.commit_ts)
        self.commit_ts = resolved_ts
        headers = {changes.H_LAST_TS: str(resolved_ts)}
        subject = subjects.changes_watermark(FEED)
        message = Outgoing(subject, msgspec.json.encode(body), headers)
        await self._bus.append(self.stream, [message])

    async def _batch(self, commit_ts: int, bodies: list[Outgoing]) -> None:
        attempt = f"a{commit_ts}"
        messages = [
            Outgoing(
                one.subject, one.data, {changes.H_ATTEMPT: attempt, changes.H_INDEX: str(index)}
            )
            for index, one in enumerate(bodies)
        ]
        marker = Marker(
            attempt, len(messages), self.commit_ts, [MarkedTxn(commit_ts, commit_ts, 1)]
        )
        headers = {changes.H_LAST_TS: str(commit_ts), changes.H_ATTEMPT: attempt}
        subject = subjects.changes_txn(FEED)
        messages.append(Outgoing(subject, msgspec.json.encode(marker), headers))
        await self._bus.append(self.stream, messages)
        self.commit_ts = commit_ts


def create(key: int, value: int) -> Event:
    return Event("c", 0, {"id": key}, None, {"id": key, "v": value})


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
