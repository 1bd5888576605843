"""The intake in the simulator: each change once, and nothing handed on that the relay lacks."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import msgspec
import pytest

from tests.unit.applier.publisher import FEED, Publisher, T
from tests.unit.downstreams.shapes import ddl
from tests.unit.relay.relay_rig import bodies_of
from tidelog.changes import Event, RowMessage, schema_key
from tidelog.errors import DiskFull, Unavailable
from tidelog.feed_reader import Gap
from tidelog.kv import Bucket
from tidelog.ports import Ports
from tidelog.relay import BatchLog, LargeBatch, RelayLog, Spool
from tidelog.schema.structure import TableStructure
from tidelog.sim.world import World, run
from tidelog.subjects import schemas_bucket
from tidelog_applier.read import Batch, Intake, Moved, Structures, Taken

COUNT = 60
SPILL_BYTES = 700


def published(number: int) -> dict[str, list[Event]]:
    """Small ones, and some above SPILL_BYTES."""
    text = "x" * (600 if number % 5 == 0 else 10)
    row: dict[str, Any] = {"id": number, "v": text}
    return {
        "t": [Event("c", 0, {"id": number}, None, row)],
        "bag": [Event("c", 0, None, None, row)],
    }


async def fill(publisher: Publisher, count: int = COUNT) -> None:
    for number in range(count):
        await publisher.rows(**published(number))
        if number % 7 == 6:
            await publisher.watermark(publisher.commit_ts + 3)
        await asyncio.sleep(0.02)


def log_of(ports: Ports, kind: str) -> BatchLog:
    if kind == "spool":
        return Spool(ports.disk, "spool")
    return RelayLog(ports.disk, "relay", feed=FEED, max_file_bytes=3000)


def intake_of(ports: Ports, kind: str, after: int) -> Intake:
    return Intake(
        ports.bus,
        FEED,
        log_of(ports, kind),
        Structures(ports, FEED),
        after=after,
        spill_bytes=SPILL_BYTES,
    )


class Downstream:
    """What outlives the reader: what it got, and a checkpoint somewhere below."""

    def __init__(self, world: World, kind: str) -> None:
        self.kind = kind
        self.rows: dict[int, list[tuple[str, Any]]] = {}
        self.checkpoint = 0
        self.reached = 0
        self.durable = 0
        """What is handed on is in the relay: so much is there after any crash."""
        self.large = 0
        self.replayed = 0
        self._rng = world.random("downstream")

    def build(self, _: Any, ports: Ports) -> Reader:
        return Reader(self, ports)

    async def take(self, one: Taken) -> None:
        assert one.commit_ts > self.reached
        self.reached = one.commit_ts
        if not isinstance(one, Moved):
            await self._rows(one)
            self.durable = max(self.durable, one.commit_ts)
        if self._rng.random() < 0.2:
            self.checkpoint = one.commit_ts

    async def _rows(self, batch: Batch | LargeBatch) -> None:
        found = []
        for body in await bodies_of(batch):
            message = msgspec.json.decode(body, type=RowMessage)
            assert batch.structures[message.db, message.table, message.schema_version]
            assert all(batch.after < event.commit_ts <= batch.commit_ts for event in message.events)
            found += [(message.table, event.after) for event in message.events]
        self.large += isinstance(batch, LargeBatch)
        self.replayed += batch.commit_ts in self.rows
        assert self.rows.setdefault(batch.commit_ts, found) == found


class Reader:
    """The process: it reads from the checkpoint on until it is killed."""

    def __init__(self, downstream: Downstream, ports: Ports) -> None:
        self._downstream = downstream
        self._intake = intake_of(ports, downstream.kind, downstream.checkpoint)

    async def run(self, stop: asyncio.Event) -> None:
        downstream = self._downstream
        downstream.reached = downstream.checkpoint
        first = True
        while not stop.is_set():
            found = await self._intake.next(0.5)
            if first and downstream.kind == "relay":
                assert self._intake.relay_end >= downstream.durable
            first = False
            for one in found:
                await downstream.take(one)
            await self._intake.applied(downstream.checkpoint)


def check(downstream: Downstream) -> None:
    rows = [row for ts in sorted(downstream.rows) for row in downstream.rows[ts]]
    expected = [
        (table, events[0].after)
        for number in range(COUNT)
        for table, events in published(number).items()
    ]
    assert rows == expected
    assert downstream.large >= COUNT // 5


@pytest.mark.parametrize("kind", ["relay", "spool"])
@pytest.mark.parametrize("seed", range(6))
def test_everything_comes_once_over_kills(seed: int, kind: str) -> None:
    async def main(world: World) -> None:
        downstream = Downstream(world, kind)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        node = world.node("applier")
        node.start(downstream.build, None)
        filling = asyncio.ensure_future(fill(publisher))
        rng = world.random("chaos")
        while not filling.done():
            await world.sleep(0.05 + rng.random() / 3)
            node.kill()
            node.restart()
        await filling
        await world.until(lambda: downstream.reached >= publisher.commit_ts, 30)
        assert not node.failures
        check(downstream)
        assert downstream.replayed

    run(main, seed=seed)


def test_the_relay_alone_is_read_when_the_stream_is_gone() -> None:
    async def main(world: World) -> None:
        ports = world.ports("applier")
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        await fill(publisher, 10)
        intake = intake_of(ports, "relay", 0)
        first = await drained(intake)
        await intake.close()
        await ports.bus.stream_delete(publisher.stream)
        await ports.bus.stream_delete(Bucket(ports.bus, schemas_bucket(FEED)).stream)
        again = await drained(intake_of(ports, "relay", 0))
        told = [(one.commit_ts, await bodies_of(one)) for one in again]
        assert told == [(one.commit_ts, await bodies_of(one)) for one in first]
        assert len(told) == 12

    run(main, seed=1)


async def drained(intake: Intake) -> list[Batch | LargeBatch]:
    """All that comes before a second of nothing."""
    found: list[Batch | LargeBatch] = []
    quiet = 0
    while quiet < 3:
        taken = await intake.next(0.4)
        found += [one for one in taken if not isinstance(one, Moved)]
        quiet = 0 if taken else quiet + 1
    return found


async def endlessly(intake: Intake, found: list[Taken]) -> None:
    while True:
        found += await intake.next(0.4)


@pytest.mark.parametrize("kind", ["relay", "spool"])
def test_a_full_disk_is_waited_out(kind: str) -> None:
    async def main(world: World) -> None:
        node = world.node("applier")
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        intake = intake_of(node.ports(), kind, 0)
        found = await drained(intake)
        await publisher.rows(**published(1))
        found += await drained(intake)
        node.disk.full = True
        await publisher.rows(**published(5))
        for _ in range(2):
            with pytest.raises(DiskFull):
                await endlessly(intake, [])
        node.disk.full = False
        await publisher.rows(**published(6))
        found += await drained(intake)
        assert [one.commit_ts for one in found] == [1, 2, 3, 4, 5]

    run(main, seed=1)


def test_what_is_applied_makes_room_on_a_full_disk() -> None:
    async def main(world: World) -> None:
        node = world.node("applier")
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        intake = intake_of(node.ports(), "relay", 0)
        for _ in range(3):  # a file each
            await fill(publisher, 20)
            found = await drained(intake)
        node.disk.full = True
        await publisher.rows(**published(1))
        with pytest.raises(DiskFull):
            await endlessly(intake, [])
        await intake.applied(found[-1].commit_ts)
        assert [one.commit_ts for one in await drained(intake)] == [publisher.commit_ts]

    run(main, seed=1)


def test_a_structure_that_is_missing_is_waited_for_and_nothing_is_lost() -> None:
    async def main(world: World) -> None:
        ports = world.ports("applier")
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        bucket = Bucket(ports.bus, schemas_bucket(FEED))
        await publisher.rows(**published(1))
        intake = intake_of(ports, "relay", 2)
        await ports.bus.stream_delete(bucket.stream)
        for _ in range(2):
            with pytest.raises(Unavailable, match="structure"):
                await intake.next()
        await bucket.create()
        fresh = Publisher(world.ports("again").bus)
        fresh.commit_ts = publisher.commit_ts
        await fresh.begin()
        assert [one.commit_ts for one in await drained(intake)] == [3, 4, 5]

    run(main, seed=1)


def test_a_stream_that_begins_too_late_is_a_gap_behind_what_the_relay_has() -> None:
    async def main(world: World) -> None:
        ports = world.ports("applier")
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        intake = intake_of(ports, "relay", 0)
        assert len(await drained(intake)) == 2
        await intake.close()
        await ports.bus.stream_delete(publisher.stream)
        await publisher.create_stream()
        publisher.commit_ts = 50
        await publisher.rows(**published(1))
        intake = intake_of(ports, "relay", 0)
        found: list[Taken] = []
        with pytest.raises(Gap):
            await endlessly(intake, found)
        assert [one.commit_ts for one in found] == [1, 2]

    run(main, seed=1)


def structures_in_memory() -> int:
    gc.collect()
    return sum(isinstance(one, TableStructure) for one in gc.get_objects())


def test_what_it_knows_does_not_grow_with_the_versions_of_a_table() -> None:
    async def main(world: World) -> None:
        ports = world.ports("applier")
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        bucket = Bucket(ports.bus, schemas_bucket(FEED))
        intake = intake_of(ports, "relay", 0)
        last, known = T, 0
        for number in range(60):
            if number == 10:
                known = structures_in_memory()
            new = msgspec.structs.replace(last, version=T.version + 1 + number)
            await bucket.put(schema_key("d", "t", new.version), msgspec.json.encode(new))
            await publisher.ddl(ddl("add_index", (last, new)))
            publisher.version, last = new.version, new
            await publisher.rows(t=published(number)["t"])
            assert len(await drained(intake)) >= 2
        assert structures_in_memory() <= known + 2

    run(main, seed=1)
