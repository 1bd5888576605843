"""The Applier in the simulator: a published feed arrives once, over faults and restarts."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Literal

import msgspec
import pytest

from tests.unit.applier.publisher import EARLY_ID, FEED, Publisher, T, create
from tests.unit.applier.sim_rig import (
    CONFIG,
    NODE,
    Slow,
    saved,
    started,
    stopped,
    told_by_registry,
    world_with,
    world_with_database,
)
from tests.unit.registry.nodes import CLUSTER
from tidelog import messages, subjects
from tidelog.changes import Event, schema_key
from tidelog.errors import Stopped
from tidelog.kv import Bucket
from tidelog.messages import Consumer, SafePoint, SafePointRequest
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.life import Life
from tidelog.sim.world import World, run
from tidelog_applier.apply import pipeline
from tidelog_applier.read.assembler import SPILL_BYTES
from tidelog_applier.service import build
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry

LONG = 200_000


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


@pytest.mark.parametrize("mode", ["parallel", "atomic"])
@pytest.mark.parametrize("seed", range(12))
def test_everything_arrives_once_over_faults_and_restarts(
    seed: int, mode: Literal["parallel", "atomic"]
) -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        database.faults.refused = database.faults.unknown = 0.05
        publisher, node = await started(world, msgspec.structs.replace(CONFIG, mode=mode))
        filling = asyncio.ensure_future(fill(publisher, 60))
        rng = world.random("chaos")
        while not filling.done():
            await world.sleep(0.1 + rng.random())
            node.kill()
            node.restart()
        await filling
        database.faults.heal()
        target = publisher.commit_ts

        await world.until(lambda: saved(database) >= target, 60, "the last commit")
        check(database, 60)

    run(main, seed)


def test_ddls_that_come_again_early_run_once_and_their_rows_arrive() -> None:
    """A stream that was lost and is filled again, by a Drainer that can't tell whether readers know
    them (docs/adr/0005)."""

    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        await fill(publisher, 2)
        node = world.node("applier")
        node.start(build, CONFIG)
        await publisher.early(again=True)
        await world.until(lambda: saved(database) >= publisher.commit_ts, 60, "the DDLs")
        node.kill()
        node.restart()
        await publisher.early()

        await world.until(lambda: saved(database) >= publisher.commit_ts, 60, "their row")
        assert database.violations == []
        assert database.rows("d", "t") == [{"id": EARLY_ID, "v": 1, "n": 2}]
        assert node.service.status()["applier"]["ddls_met_again"] == 2

    run(main, 1)


@pytest.mark.parametrize("seed", range(12))
def test_early_ddls_run_once_and_their_rows_arrive(seed: int) -> None:
    """Killed at any moment, between a DDL and the rows, too; the simulated database says what is
    run twice. Later the DDLs come again, as after the loss of the stream."""

    async def main(world: World) -> None:
        database = world_with_database(world)
        database.faults.refused, database.faults.unknown = 0.3, 0.2
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        await fill(publisher, 2)
        node = world.node("applier")
        node.start(build, CONFIG)
        rng = world.random("chaos")
        await world.sleep(0.2 * rng.random())
        await publisher.early()
        for _ in range(8):
            await world.sleep(rng.choice((0.05, 1.0)) * rng.random())
            node.kill()
            node.restart()
        await publisher.early(again=True)
        await publisher.rows(bag=[Event("c", 0, None, None, {"v": 1})])
        database.faults.heal()

        await world.until(lambda: saved(database) >= publisher.commit_ts, 60, "the last commit")
        assert database.violations == []
        assert database.rows("d", "t") == [{"id": EARLY_ID, "v": 1, "n": 2}]
        assert database.checkpoint is not None
        assert database.checkpoint.ddls_done[-2:] == (2, 3)
        assert node.service.status()["applier"]["ddls_met_again"] >= 2

    run(main, seed)


def test_watermarks_alone_move_the_checkpoint_and_a_stop_saves_it() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await started(world)
        await publisher.watermark(500)
        await world.until(lambda: saved(database) == 500, 10, "a saved watermark")
        await publisher.watermark(600)
        await world.sleep(1)
        await node.stop()
        assert saved(database) == 600
        assert database.checkpoint is not None
        assert database.checkpoint.consistent
        assert database.commits <= 8

    run(main, 1)


def test_an_upstream_that_is_gone_leaves_a_consistent_downstream() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        world.node("applier").start(build, CONFIG)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: saved(database) == publisher.commit_ts, 10, "the row")

        def consistent() -> bool:
            return database.checkpoint is not None and database.checkpoint.consistent

        assert not consistent()
        await world.until(consistent, CONFIG.recover_after_s + 5, "a consistent checkpoint")
        await publisher.rows(t=[create(2, 2)])
        await world.until(lambda: len(database.rows("d", "t")) == 2, 10, "the next row")
        assert not consistent()

    run(main, 5)


def test_an_unreachable_database_is_waited_for() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        database.faults.refused = 1.0
        publisher, node = await started(world)
        await world.sleep(120)
        assert node.running
        shown = node.service.status()["applier"]
        assert "refuses" in str(shown["error"])
        assert shown["not_ready"] == f"the downstream was never opened: {shown['error']}"
        database.faults.heal()
        await world.until(lambda: len(database.tables) == 2, 30, "the tables")
        assert node.starts == 1
        assert node.service.status()["applier"]["not_ready"] == ""
        # It was there, and comes back: what is down for a while takes nobody out of service.
        database.faults.refused = 1.0
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: bool(node.service.status()["applier"]["error"]), 30, "trouble")
        assert node.service.status()["applier"]["not_ready"] == ""

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


@pytest.mark.parametrize("junk", [b"{}", b"\xff", b"[" * 100_000], ids=["other", "bytes", "deep"])
def test_a_structure_that_cant_be_read_is_a_typed_stop(junk: bytes) -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await started(world)
        bucket = Bucket(world.ports("drainer").bus, subjects.schemas_bucket(FEED))
        await bucket.put(schema_key("d", "t", 1), junk)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: stopped(world), 30, "the typed stop")
        error = node.service.status()["applier"]["error"]
        assert f"d.t.1 in {bucket.name} is no structure of a table" in error
        assert f"nats stream rm {bucket.stream}" in error
        assert (node.starts, node.service.restarts_total) == (1, 0)
        await bucket.put(schema_key("d", "t", 1), msgspec.json.encode(T))
        node.kill()
        node.restart()
        await world.until(lambda: len(database.rows("d", "t")) == 1, 30, "the row")

    run(main, 3)


@pytest.mark.parametrize("start_ts", [0, 99])
def test_a_stream_that_begins_later_is_a_gap_that_is_shown(start_ts: int) -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
        publisher = Publisher(world.ports("drainer").bus)
        publisher.commit_ts = 100
        await publisher.begin()
        node = world.node("applier")
        node.start(build, msgspec.structs.replace(CONFIG, start_ts=start_ts))
        await world.until(lambda: stopped(world), 10, "the typed stop")
        await publisher.rows(t=[create(1, 1)])
        await world.sleep(200)
        assert (node.starts, node.running, node.failures) == (1, True, [])
        assert (database.checkpoint, database.tables) == (None, {})
        said = f"changes after {start_ts} up to 100 are not in the stream"
        shown = node.service.status()["applier"]
        assert said in shown["error"]
        assert shown["not_ready"] == shown["error"]
        told = {status.nodeId: status for status in (await told_by_registry(world)).nodes}
        assert said in told[NODE].detail["error"]
        assert "begin again from a copy" in told[NODE].detail["error"]
        assert told[NODE].isAlive

    run(main, 1)


@pytest.mark.parametrize("start_ts", [0, 100])
def test_a_new_feed_that_begins_late_and_a_given_start_are_no_gap(start_ts: int) -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher = Publisher(world.ports("drainer").bus)
        publisher.commit_ts = start_ts
        await publisher.create_stream()
        await publisher.watermark(500)
        await publisher.begin()
        node = world.node("applier")
        node.start(build, msgspec.structs.replace(CONFIG, start_ts=start_ts))
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: saved(database) == 503, 10, "the row")
        assert not stopped(world)

    run(main, 1)


def test_nothing_behind_a_gap_is_applied() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        await publisher.rows(t=[create(1, 1)])
        last = publisher.commit_ts
        node = world.node("applier")
        node.start(build, CONFIG)
        await world.until(lambda: saved(database) == last, 10, "the row")
        publisher.commit_ts += 5
        await publisher.rows(t=[create(2, 2)])
        await world.until(lambda: stopped(world), 10, "the typed stop")
        await world.sleep(100)
        assert saved(database) == last
        assert [row["id"] for row in database.rows("d", "t")] == [1]
        assert node.starts == 1
        await node.stop()
        assert saved(database) == last

    run(main, 1)


class Refusing(SimDatabase):
    """Takes nothing while it `refuses`."""

    refuses = True

    async def transact(self, life: Life, work: Any) -> None:
        if self.refuses:
            raise Stopped("the downstream refuses the value", hint="widen the column")
        await super().transact(life, work)


def test_a_downstream_that_says_no_stops_it_until_it_is_started_again() -> None:
    async def main(world: World) -> None:
        database = world_with(world, Refusing)
        publisher, node = await started(world)
        await world.until(lambda: stopped(world), 10, "the typed stop")
        database.refuses = False
        await publisher.watermark(900)
        await world.sleep(100)
        assert (node.starts, database.checkpoint) == (1, None)
        shown = node.service.status()["applier"]["error"]
        assert shown == "the downstream refuses the value (widen the column)"
        node.kill()
        node.restart()
        await world.until(lambda: saved(database) == 900, 10, "all of it")
        assert node.service.status()["applier"]["error"] == ""

    run(main, 1)


def test_a_stop_within_a_large_batch_does_not_save_it_as_consistent() -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher = Publisher(world.ports("drainer").bus)
        await publisher.begin()
        before, count = publisher.commit_ts, 2 * SPILL_BYTES // LONG + 1
        long = {"v": "x" * LONG}
        rows = [Event("c", 0, {"id": n}, None, {"id": n, **long}) for n in range(count)]
        await publisher.rows_and_rubbish(*([row] for row in rows))
        node = world.node("applier")
        node.start(build, CONFIG)
        await world.until(lambda: stopped(world), 20, "the typed stop")
        await world.until(lambda: bool(database.rows("d", "t")), 20, "a window")
        await node.stop()
        assert database.checkpoint is not None
        assert (saved(database), database.checkpoint.consistent) == (before, False)

    run(main, 1)


@pytest.mark.parametrize("known", [None, 700])
def test_it_is_a_consumer_before_its_downstream_was_opened(known: int | None) -> None:
    async def main(world: World) -> None:
        database = world_with_database(world)
        database.faults.refused = 1.0
        world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
        await world.sleep(2)
        bus = world.ports().bus
        if known is not None:
            body = messages.encode(SafePointRequest(Consumer(NODE, FEED, known)))
            subject = subjects.registry(CLUSTER, "safepoint")
            answer = await bus.request(subject, body, timeout_s=3.0)
            messages.decode_reply(answer.data, SafePoint)
        world.node("applier").start(build, msgspec.structs.replace(CONFIG, start_ts=30))
        told = await told_by_registry(world)
        assert told.consumers == [Consumer(NODE, FEED, 30 if known is None else known)]
        database.faults.heal()
        await world.sleep(20)
        told = await told_by_registry(world)
        assert told.consumers == [Consumer(NODE, FEED, 30)]

    run(main, 1)


@pytest.mark.parametrize(("mode", "windows"), [("parallel", 10), ("atomic", 1)])
def test_a_batch_is_handed_out_in_windows_where_it_may_be(
    mode: Literal["parallel", "atomic"], windows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 messages of 5 rows and windows of 7; atomic modes keep each batch whole."""
    monkeypatch.setattr(pipeline, "CUT_LEAST", 1)

    async def main(world: World) -> None:
        database = world_with_database(world)
        publisher, node = await started(world, msgspec.structs.replace(CONFIG, mode=mode))
        await publisher.watermark(100)
        await world.until(lambda: saved(database) == 100, 10, "the tables")
        before = node.service.status()["applier"]["windows"]
        await publisher.large(messages=20, rows=5)
        await world.until(lambda: saved(database) == publisher.commit_ts, 20, "the batch")
        assert node.service.status()["applier"]["windows"] - before == windows
        assert database.violations == []
        assert len(database.rows("d", "t")) == 100

    run(main, 1)


def has_rows(database: SimDatabase, count: int) -> bool:
    return len(database.rows("d", "bag")) >= count


@pytest.mark.parametrize("seed", range(8))
def test_killed_between_the_windows_of_a_batch_nothing_is_there_twice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "CUT_LEAST", 1)

    async def main(world: World) -> None:
        database = world_with(world, Slow)
        publisher, node = await started(world)
        await publisher.watermark(100)
        await world.until(lambda: saved(database) == 100, 10, "the tables")
        await publisher.bag(messages=20, rows=5)
        database.row_s = 0.4
        rng = world.random("chaos")
        for _ in range(4):
            await world.until(partial(has_rows, database, rng.randrange(1, 100)), 60, "a part")
            node.kill()
            node.restart()
        await world.until(lambda: saved(database) == publisher.commit_ts, 60, "the batch")
        assert database.violations == []
        assert sorted(row["v"] for row in database.rows("d", "bag")) == list(range(100))

    run(main, seed)


def test_a_life_in_atomic_mode_is_one_of_our_own() -> None:
    """It goes on where a parallel one was killed, and is killed below what that one had read: the
    next one knows by its own relay how far both may have got, and is consistent behind that."""

    async def main(world: World) -> None:
        database = world_with(world, Slow)
        publisher, node = await started(world)
        await world.until(lambda: len(database.tables) == 2, 10, "the tables")
        database.row_s = 0.4
        for number in range(40):
            await publisher.rows(t=[create(number, number)])
        await world.until(lambda: bool(database.rows("d", "t")), 20, "a row")
        node.kill()
        before = saved(database)
        node.start(build, msgspec.structs.replace(CONFIG, mode="atomic"))
        await world.until(lambda: saved(database) > before, 20, "a transaction")
        node.kill()
        assert saved(database) < publisher.commit_ts
        node.start(build, CONFIG)
        await world.until(lambda: saved(database) == publisher.commit_ts, 60, "all of it")
        await node.stop()
        assert database.checkpoint is not None
        assert database.checkpoint.consistent

    run(main, 1)
