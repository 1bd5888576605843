"""The feed's schema, read again while transactions ask it for more."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.drainer.test_schema_restarts import (
    ROUTED,
    SCHEMAS,
    STEP,
    Alters,
    Feed,
    soon,
    wide,
)
from tests.unit.drainer.test_stops import CONFIG, begin
from tidelog.changes import structure_key
from tidelog.errors import ConfigError, Corrupt
from tidelog.filter.settings import TableName
from tidelog.kv import Bucket
from tidelog.ports import Bus
from tidelog.schema.errors import TablesAway
from tidelog.schema.model import DdlJob, HistoryInfo, Name
from tidelog.schema.structure import TableStructure, structure
from tidelog.sim import streams
from tidelog.sim.world import World, run
from tidelog_drainer.schema.snapshot import ROOT
from tidelog_drainer.schema.store import SchemaStore
from tidelog_drainer.schema.structures import LOOK_S, Structures


def shapes(store: SchemaStore) -> Mapping[str, TableStructure]:
    table = store.tracker.table(100, 1 << 40)
    return {structure_key(table.db, structure(table)): structure(table)}


def test_jobs_that_were_read_while_a_lost_bucket_is_filled_again_stay_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forgotten, a row of their version would be decoded without its newest columns."""

    async def main(world: World) -> None:
        history = Alters(5)
        world.open_ddl_history = lambda url, bus: history
        ports = world.ports()
        store = SchemaStore(CONFIG, ports)
        await store.open(5 * STEP, 0)
        await store.publish(dict(shapes(store)))
        await ports.bus.stream_delete(Bucket(ports.bus, SCHEMAS).stream)
        await ports.clock.sleep(LOOK_S)
        publish = Structures.publish

        async def meanwhile(self: Structures, made: dict[str, TableStructure]) -> None:
            history.jobs_made = 8
            await store.fetch()
            await publish(self, made)

        monkeypatch.setattr(Structures, "publish", meanwhile)
        await store.look()
        assert store.rebuilds == {"lost": 1}
        assert store.newest_version == 8
        assert store.tracker.table(100, 8).version == 8

    run(main)


class TwoTables(Alters):
    """The third job creates another table, of which nothing is heard any more."""

    def job(self, n: int) -> DdlJob:
        if n != 3:
            return super().job(n)
        info = msgspec.structs.replace(wide(2), id=101, name=Name("u", "u"))
        binlog = HistoryInfo(n, None, info, n * STEP)
        return DdlJob(n, 3, 9, 101, "app", "u", query=f"ddl {n}", binlog=binlog)


def test_what_the_feed_leaves_out_is_not_among_the_structures_that_are_made_again() -> None:
    config = msgspec.structs.replace(ROUTED, ignore_table=(TableName("app", "u"),))

    async def main(world: World) -> None:
        history = TwoTables(5)
        world.open_ddl_history = lambda url, bus: history
        ports = world.ports()
        bucket = Bucket(ports.bus, SCHEMAS)
        store = SchemaStore(config, ports)
        await store.open(STEP, 0)
        await store.publish(dict(shapes(store)))
        await ports.bus.stream_delete(bucket.stream)
        await ports.clock.sleep(LOOK_S)
        await store.look()
        assert set((await bucket.entries())[0]) == {f"copy.u.{version}" for version in (2, 4, 5)}

    run(main)


async def damaged(bus: Bus) -> None:
    """Somebody wrote over each page."""
    bucket = Bucket(bus, SCHEMAS)
    entries, _ = await bucket.entries()
    pages = [key for key in entries if key.startswith("schema/page/")]
    assert pages
    for key in pages:
        await bucket.put(key, b"something else")


@pytest.mark.usefixtures(soon.__name__)
def test_a_page_that_is_damaged_when_it_is_written_anew_is_made_again_from_the_history() -> None:
    async def main(world: World) -> None:
        history = TwoTables(10)
        world.open_ddl_history = lambda url, bus: history
        ports = world.ports()
        first, second, third = (SchemaStore(CONFIG, ports) for _ in range(3))
        await first.open(10 * STEP, 0)
        await first.keep(10 * STEP)
        await second.open(10 * STEP, 0)
        await damaged(ports.bus)
        history.jobs_made = 16
        await second.fetch()
        await second.keep(16 * STEP)
        assert second.rebuilds == {"damaged": 1}
        await second.keep(16 * STEP)
        await third.open(16 * STEP, 0)
        with pytest.raises(TablesAway) as away:
            third.tracker.table(101, 16)
        await third.load(away.value.pages, away.value.needed)
        assert third.rebuilds == {}
        assert [third.tracker.table(one, 16).name for one in (100, 101)] == ["t", "u"]

    run(main)


def test_a_damaged_page_that_the_history_can_t_make_again_stops_the_feed() -> None:
    async def main(world: World) -> None:
        history = TwoTables(2)
        world.open_ddl_history = lambda url, bus: history
        _, pump = await begin(world)
        feed = Feed(world, history, pump)
        history.jobs_made = 10
        for n in range(1, 11):
            pump.commit([history.binlog(n)], n * STEP)
        await feed.read(10 * STEP)
        await feed.snapshot_of(10)
        await feed.restart()
        await damaged(world.ports().bus)
        history.jobs_made, history.from_job = 16, 5
        for n in range(11, 17):
            pump.commit([history.binlog(n)], n * STEP)
        assert "the DDL history begins at job 5, it began at 1" in await feed.stopped()
        assert (feed.node.starts, feed.node.service.restarts_total) == (2, 0)

    run(main)


@pytest.mark.usefixtures(soon.__name__)
def test_a_snapshot_that_finds_no_place_in_a_message_is_tried_once_and_missed_by_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World) -> None:
        history = Alters(10)
        world.open_ddl_history = lambda url, bus: history
        ports = world.ports()
        store = SchemaStore(CONFIG, ports)
        await store.open(10 * STEP, 0)
        monkeypatch.setattr(streams, "MAX_PAYLOAD", 150)
        with capture_logs() as logs:
            await store.keep(10 * STEP)
            history.jobs_made = 20
            await store.fetch()
            await store.keep(20 * STEP)
        told = [one["event"] for one in logs if one["log_level"] == "error"]
        assert told == ["the schema's snapshot can't be written"]
        assert await Bucket(ports.bus, SCHEMAS).get(ROOT) is None
        assert store.tracker.table(100, 20).version == 20

    run(main)


class Replaced(TwoTables):
    """Another file all at once, when it is `wrong`."""

    wrong = False

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        if self.wrong:
            raise Corrupt("/jobs.json holds something else")
        async for page in super().jobs(after_job_id):
            yield page


async def fetched(store: SchemaStore, bus: Bus) -> None:
    """A job is read that the feed needs."""
    await store.fetch_until_answered("a job")


async def restored(store: SchemaStore, bus: Bus) -> None:
    """All of it is read, for a bucket that was lost."""
    await bus.stream_delete(Bucket(bus, SCHEMAS).stream)
    await store.look()


async def saved(store: SchemaStore, bus: Bus) -> None:
    """All of it is read, for a page that is damaged when it is written anew."""
    await damaged(bus)
    await store.keep(16 * STEP)


@pytest.mark.usefixtures(soon.__name__)
@pytest.mark.parametrize("reads", [fetched, restored, saved])
def test_a_history_that_is_another_file_all_at_once_is_an_error_of_the_configuration(
    reads: Callable[[SchemaStore, Bus], Awaitable[None]],
) -> None:
    async def main(world: World) -> None:
        history = Replaced(10)
        world.open_ddl_history = lambda url, bus: history
        ports = world.ports()
        first, store = SchemaStore(CONFIG, ports), SchemaStore(CONFIG, ports)
        await first.open(10 * STEP, 0)
        await first.keep(10 * STEP)
        await store.open(10 * STEP, 0)
        history.jobs_made = 16
        await store.fetch()
        await store.publish(dict(shapes(store)))
        history.wrong = True
        with pytest.raises(ConfigError, match="holds something else") as refused:
            await reads(store, ports.bus)
        assert refused.value.hint == "`ddl-history`: a JSON array of jobs"

    run(main)
