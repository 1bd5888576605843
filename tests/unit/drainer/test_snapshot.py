"""The schema's snapshot: whatever ends a save, what is read is the schema as of some save."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from random import Random

import msgspec
import pytest

from tests.unit.schema.jobs import create_schema, job, table_info
from tests.unit.schema.random_history import TS_STEP, RandomHistory
from tidelog.errors import Unavailable
from tidelog.kv import Bucket, Entry
from tidelog.schema import folded
from tidelog.schema import jobs as kinds
from tidelog.schema.errors import TablesAway, UnknownTable
from tidelog.schema.history import TableAt
from tidelog.schema.tracker import SchemaTracker
from tidelog.sim.world import World, run
from tidelog_drainer.schema import pages
from tidelog_drainer.schema.errors import SnapshotDamaged
from tidelog_drainer.schema.snapshot import Snapshot


class Flaky(Bucket):
    """Fails after so many writes, before or after the write was done."""

    writes = 1 << 60
    lose_answer = False

    async def put_all(self, values: Mapping[str, bytes], **how: object) -> int:
        return await self._flaky(lambda: super(Flaky, self).put_all(values, **how))  # type: ignore[arg-type]

    async def put(self, key: str, value: bytes, **how: object) -> int:
        return await self._flaky(lambda: super(Flaky, self).put(key, value, **how))  # type: ignore[arg-type]

    async def _flaky(self, write: Callable[[], Awaitable[int]]) -> int:
        self.writes -= 1
        if self.writes >= 0:
            return await write()
        if self.lose_answer:
            await write()
        raise Unavailable("no answer")


async def table(
    tracker: SchemaTracker, snapshot: Snapshot, table_id: int, version: int
) -> TableAt | None:
    while True:
        try:
            return tracker.table(table_id, version)
        except UnknownTable:
            return None
        except TablesAway as away:
            await snapshot.load(tracker.folded, away.pages, away.needed)


async def saved(world: World, history: RandomHistory) -> tuple[Bucket, SchemaTracker]:
    """A snapshot of all of it."""
    bucket = Bucket(world.ports().bus, "SCHEMAS_X")
    await bucket.create()
    tracker = SchemaTracker()
    tracker.add_jobs(history.jobs)
    tracker.fold(1 << 60, keep=0)
    assert await Snapshot(bucket).save(tracker, 1)
    return bucket, tracker


async def again(bucket: Bucket) -> tuple[Snapshot, SchemaTracker]:
    """What a new life finds."""
    snapshot, tracker = Snapshot(bucket), SchemaTracker()
    found = await snapshot.read()
    if found is not None:
        assert snapshot.root is not None
        tracker.reset(found, snapshot.root.steps)
    return snapshot, tracker


async def all_tables(
    snapshot: Snapshot, tracker: SchemaTracker, history: RandomHistory
) -> dict[int, TableAt | None]:
    newest = len(history.jobs)
    return {i: await table(tracker, snapshot, i, newest) for i in sorted(set(history.ids))}


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_BYTES", 900)
    monkeypatch.setattr(pages, "PAGE_MAX_BYTES", 1400)
    monkeypatch.setattr(pages, "GROUP", 4)


@pytest.mark.parametrize("seed", range(12))
def test_a_crash_at_any_write_leaves_the_old_snapshot_or_the_new_one(seed: int) -> None:
    async def main(world: World) -> None:
        rng, history = Random(seed), RandomHistory(seed)
        bucket = Flaky(world.ports().bus, "SCHEMAS_X")
        await bucket.create()
        snapshot, tracker = await again(bucket)
        for _ in range(15):
            tracker.add_jobs(history.jobs[tracker.last_job :])
            tracker.add_jobs(history.extend(rng.randrange(1, 60)))
            whole = SchemaTracker()
            whole.add_jobs(history.jobs)
            tracker.fold(rng.randrange(len(history.jobs) + 1) * TS_STEP, keep=3)
            bucket.writes = rng.choice((0, 1, 2, 3, 5, 1 << 60))
            bucket.lose_answer = rng.random() < 0.5
            with contextlib.suppress(Unavailable):
                assert await snapshot.save(tracker, 1)
            bucket.writes = 1 << 60
            if rng.random() < 0.5:
                snapshot, tracker = await again(bucket)
                tracker.add_jobs(history.jobs[tracker.last_job :])
            expected = await all_tables(snapshot, whole, history)
            assert await all_tables(snapshot, tracker, history) == expected
            assert sorted(tracker.folded.names) == sorted(
                {state.db_id for state in tracker.folded.live.values()}
            )

    run(main, seed)


def test_a_save_that_changes_one_table_writes_one_page() -> None:
    async def main(world: World) -> None:
        history = RandomHistory(3)
        history.extend(300)
        bucket, tracker = await saved(world, history)
        snapshot, tracker = await again(bucket)
        before = await bucket.state()
        tracker.folded.changed.add(next(iter(tracker.folded.live)))
        assert await snapshot.save(tracker, 1)
        after = await bucket.state()
        assert before is not None
        assert after is not None
        assert after.last_seq - before.last_seq == 3, "a page, a part of the index, the root"
        assert before.messages > 20

    run(main)


def test_it_does_not_grow_with_the_number_of_ddls() -> None:
    async def main(world: World) -> None:
        history = RandomHistory(6)
        history.extend(200)
        bucket = Bucket(world.ports().bus, "SCHEMAS_X")
        await bucket.create()
        tracker, snapshot = SchemaTracker(), Snapshot(bucket)
        tracker.add_jobs(history.jobs)
        sizes: list[int] = []
        for _ in range(40):
            last = history.jobs[-1]
            alter = next(job for job in reversed(history.jobs) if job.type == 5 and job.state != 3)
            assert alter.binlog is not None
            binlog = msgspec.structs.replace(
                alter.binlog, schema_version=last.version + 1, finished_ts=last.id * TS_STEP + 5
            )
            history.jobs.append(msgspec.structs.replace(alter, id=last.id + 1, binlog=binlog))
            tracker.add_jobs(history.jobs[-1:])
            tracker.fold(1 << 60, keep=3)
            assert await snapshot.save(tracker, 1)
            state = await bucket.state()
            assert state is not None
            sizes.append(state.messages)
        assert sizes[3:] == [sizes[3]] * 37

    run(main)


def test_what_has_ended_is_not_kept_in_memory_and_comes_back_where_it_is_asked_for() -> None:
    """Up to ENDED_MAX dropped tables are known: their columns lie in the bucket."""

    async def main(world: World) -> None:
        history = RandomHistory(8)
        bucket = Bucket(world.ports().bus, "SCHEMAS_X")
        await bucket.create()
        tracker, snapshot = SchemaTracker(), Snapshot(bucket)
        for _ in range(6):
            tracker.add_jobs(history.extend(100))
            tracker.fold(1 << 60, keep=0)
            assert await snapshot.save(tracker, 1)
        held = {i for here in tracker.folded._loaded.values() for i in here}
        assert len(tracker.folded.ended) > 20
        assert held.isdisjoint(tracker.folded.ended)
        assert held == set(tracker.folded.live)
        states = [state for _, state in tracker.folded.ended.values()]
        with pytest.raises(TablesAway) as away:
            tracker.folded.whole(states)
        await snapshot.load(tracker.folded, away.value.pages, away.value.needed)
        assert all(state.table.data for state in tracker.folded.whole(states))

    run(main)


def test_a_page_that_lacks_a_table_is_damage_and_not_asked_for_again_and_again() -> None:
    async def main(world: World) -> None:
        history = RandomHistory(5)
        history.extend(50)
        bucket, _ = await saved(world, history)
        snapshot, tracker = await again(bucket)
        page = max(state.table.page for state in tracker.folded.live.values())
        snapshot._pages.members[page].add(1 << 40)
        with pytest.raises(SnapshotDamaged, match="lacks tables"):
            await snapshot.load(tracker.folded, [page])

    run(main)


def test_whoever_saves_second_changes_nothing() -> None:
    async def main(world: World) -> None:
        history = RandomHistory(4)
        history.extend(50)
        bucket = Bucket(world.ports().bus, "SCHEMAS_X")
        await bucket.create()
        one, two = SchemaTracker(), SchemaTracker()
        for tracker in (one, two):
            tracker.add_jobs(history.jobs)
            tracker.fold(1 << 60, keep=0)
        first, second = Snapshot(bucket), Snapshot(bucket)
        assert await first.save(one, 1)
        root = first.root
        assert not await second.save(two, 1)
        assert second.root is None
        entry = await bucket.get("schema/root")
        assert entry is not None
        assert entry.revision == first.revision
        # The parts that the second one wrote over are found to be none of the first one's.
        assert root is not None
        with pytest.raises(SnapshotDamaged):
            await again(bucket)

    run(main)


@pytest.mark.parametrize("key", ["schema/root", "schema/index/0/0", "schema/page/{}/0"])
@pytest.mark.parametrize("value", [b"", b"\x00" * 30])
def test_what_is_no_part_is_named(key: str, value: bytes) -> None:
    async def main(world: World) -> None:
        history = RandomHistory(5)
        history.extend(50)
        bucket, tracker = await saved(world, history)
        page = max(state.table.page for state in tracker.folded.live.values())
        await bucket.put(key.format(page), value)

        async def read() -> None:
            await all_tables(*await again(bucket), history)

        with pytest.raises(SnapshotDamaged):
            await read()

    run(main)


class SavedMeanwhile(Bucket):
    """Something is saved just before the first page comes."""

    save: Callable[[], Awaitable[bool]] | None = None

    async def get(self, key: str) -> Entry | None:
        save, self.save = self.save, None
        if save is not None:
            assert await save()
        return await super().get(key)


def test_pages_that_a_save_takes_away_while_others_are_loaded_are_no_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folded, "ENDED_MAX", 0)

    async def main(world: World) -> None:
        history = RandomHistory(3)
        history.extend(60)
        plain, _ = await saved(world, history)
        bucket = SavedMeanwhile(world.ports().bus, plain.name)
        snapshot, tracker = await again(bucket)
        assert snapshot.root is not None
        asked = sorted(snapshot.root.pages)
        version = len(history.jobs)
        dropped = {state.db_id: state.db for state in tracker.tables()}
        tracker.add_jobs(
            job(version + at, kinds.DROP_SCHEMA, schema=one)
            for at, one in enumerate(dropped.items(), 1)
        )
        tracker.fold(1 << 60, keep=0)
        bucket.save = lambda: snapshot.save(tracker, 1)
        await snapshot.load(tracker.folded, asked)
        assert snapshot.root.pages == {}

    run(main)


def test_tables_of_one_ddl_that_fill_more_than_is_kept_are_brought_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """DROP DATABASE of tables that lie in many pages, some of which are here already."""
    monkeypatch.setattr(folded, "LOADED_BYTES", 4000)
    columns = [f"column_{at}" for at in range(6)]
    made = [table_info(100 + at, f"t{at}", *columns) for at in range(40)]

    async def main(world: World) -> None:
        bucket = Bucket(world.ports().bus, "SCHEMAS_X")
        await bucket.create()
        tracker = SchemaTracker()
        tracker.add_jobs([create_schema(1, 1, "app")])
        tracker.add_jobs([job(2 + at, kinds.CREATE_TABLE, one) for at, one in enumerate(made)])
        tracker.fold(1 << 60, keep=0)
        assert await Snapshot(bucket).save(tracker, 1)
        snapshot, tracker = await again(bucket)
        assert await table(tracker, snapshot, 100, 50) is not None
        tracker.add_jobs([job(50, kinds.DROP_SCHEMA)])
        for _ in range(20):
            try:
                dropped = tracker.ddl(1050)
                break
            except TablesAway as away:
                await snapshot.load(tracker.folded, away.pages, away.needed)
        else:
            pytest.fail("the same pages are asked for again and again")
        assert len(dropped.affected) == len(made)

    run(main)
