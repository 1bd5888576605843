"""The feed's schema over restarts and losses: nothing is decoded by guess (T9, T17)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.integration.drainer.fakes import FEED, FakePump
from tests.unit.drainer.test_simulated import TABLE
from tests.unit.drainer.test_stops import CONFIG, begin, said
from tidelog import subjects
from tidelog.change_reader import Change, ChangeReader
from tidelog.filter.settings import TableMigrateRule, TableWildcards
from tidelog.kv import Bucket
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import (
    ColumnInfo,
    DBInfo,
    DdlJob,
    FieldType,
    HistoryInfo,
    Name,
    TableInfo,
)
from tidelog.sim.node import Node
from tidelog.sim.world import World, run
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.publish import publisher
from tidelog_drainer.schema import store
from tidelog_proto.binlog_pb2 import Binlog, Insert, PrewriteValue, TableMutation

STEP = 10
SCHEMAS = subjects.schemas_bucket(FEED)
CREATE = {1: "CREATE DATABASE app", 2: "CREATE TABLE t (id BIGINT)"}
ROUTED = msgspec.structs.replace(
    CONFIG,
    table_migrate_rule=tuple(
        TableMigrateRule(TableWildcards("app", source), TableWildcards("copy", target))
        for source, target in (("", ""), ("t", "u"))
    ),
)
"""Readers know app.t as copy.u."""


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot for every few jobs."""
    monkeypatch.setattr(store, "KEEP_JOBS", 2)
    monkeypatch.setattr(store, "LATE_JOBS", 2)
    monkeypatch.setattr(store, "FOLD_JOBS", 3)
    monkeypatch.setattr(store, "DELTA_JOBS", 1)
    monkeypatch.setattr(publisher, "KEEP_S", 0.2)


def wide(columns: int) -> TableInfo:
    more = (
        ColumnInfo(n, Name(f"c{n}", f"c{n}"), n - 1, FieldType(8, 0)) for n in range(2, columns)
    )
    return msgspec.structs.replace(TABLE, cols=(*(TABLE.cols or ()), *more))


class Alters:
    """CREATE of a schema and a table, then one column after another; job n has version n, and is
    finished at n * STEP, where its binlog lies. `from_job` and `upto_job` say what is there."""

    def __init__(self, jobs: int) -> None:
        self.jobs_made = jobs
        self.from_job, self.upto_job = 1, 1 << 60
        self.asked: list[int] = []

    def job(self, n: int) -> DdlJob:
        if n == 1:
            db = DBInfo(9, Name("app", "app"))
            return DdlJob(1, 1, 9, 0, "app", binlog=HistoryInfo(1, db, None, STEP))
        binlog = HistoryInfo(n, None, wide(n), n * STEP)
        return DdlJob(n, 3 if n == 2 else 5, 9, 100, "app", "t", query=f"ddl {n}", binlog=binlog)

    def binlog(self, n: int) -> Txn:
        ts = n * STEP
        text = f"ALTER TABLE t ADD COLUMN c{n - 1} BIGINT" if n > 2 else CREATE[n]
        binlog = Binlog(
            start_ts=ts - 1,
            commit_ts=ts,
            ddl_query=text.encode(),
            ddl_job_id=n,
            ddl_schema_state=5,
        )
        return ts, ts - 1, binlog.SerializeToString()

    def row(self, n: int) -> Txn:
        """A row of version n, right behind its DDL."""
        ts = n * STEP + 2
        values = {"id": n} | {f"c{at}": at for at in range(2, n)}
        row = TableCodec(wide(n)).encode_insert(values, ts)
        mutation = TableMutation(table_id=100, inserted_rows=[row], sequence=[Insert])
        value = PrewriteValue(schema_version=n, mutations=[mutation]).SerializeToString()
        binlog = Binlog(start_ts=ts - 1, commit_ts=ts, prewrite_value=value)
        return ts, ts - 1, binlog.SerializeToString()

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        self.asked.append(after_job_id)
        first = max(after_job_id + 1, self.from_job)
        for at in range(first, min(self.jobs_made, self.upto_job) + 1, 4):
            yield [
                self.job(n) for n in range(at, at + 4) if n <= min(self.jobs_made, self.upto_job)
            ]


class Feed:
    """A Drainer, one Pump, and all that came out."""

    def __init__(self, world: World, history: Alters, pump: FakePump) -> None:
        self.world, self.history, self.pump = world, history, pump
        self.found: list[Change] = []
        self.reader = ChangeReader(world.ports().bus, FEED, 0)

    @property
    def node(self) -> Node:
        return self.world.node("drainer")

    async def upto(self, first: int, last: int) -> None:
        """These DDLs and a row behind each, until they came out."""
        self.history.jobs_made = max(self.history.jobs_made, last)
        for n in range(first, last + 1):
            rows = [self.history.row(n)] if n >= 2 else []
            self.pump.commit([self.history.binlog(n), *rows], n * STEP + 2)
        await self.read(last * STEP + 2)

    async def read(self, commit_ts: int) -> None:
        for _ in range(400):
            if self.found and self.found[-1].commit_ts >= commit_ts:
                break
            assert not said(self.node).get("error"), said(self.node)["error"]
            self.found += await self.reader.next(0.1)
        assert self.found[-1].commit_ts >= commit_ts

    def rows(self) -> list[dict[str, Any]]:
        messages = (message for change in self.found for message in change.rows)
        return [event.after or {} for message in messages for event in message.events]

    async def snapshot_of(self, job: int) -> None:
        """Until the snapshot knows this job, and the table is folded."""

        def known() -> bool:
            few = self.status("jobs") < store.KEEP_JOBS + store.FOLD_JOBS
            return bool(few and self.status("saved_job") >= job)

        await self.world.until(known, 30, "the snapshot")

    def status(self, key: str) -> Any:
        schema = said(self.node).get("schema", {})
        return schema.get(key, 0) if isinstance(schema, dict) else 0

    async def restart(self) -> None:
        self.node.kill()
        await self.start()

    async def start(self) -> None:
        before = self.node.service
        self.node.restart()

        def ready() -> bool:
            again = self.node.service is not before
            return again and bool(said(self.node).get("not_ready") == "")

        await self.world.until(ready, 30, "the feed")

    async def stopped(self) -> str:
        await self.world.until(lambda: bool(said(self.node).get("error")), 30, "the stop")
        return str(said(self.node)["error"])


async def feed_of(world: World, config: DrainerConfig = CONFIG, jobs: int = 2) -> Feed:
    history = Alters(jobs)
    world.open_ddl_history = lambda url, bus: history
    _, pump = await begin(world, config)
    return Feed(world, history, pump)


def expected(last: int) -> list[dict[str, Any]]:
    return [{"id": n} | {f"c{at}": at for at in range(2, n)} for n in range(2, last + 1)]


def test_a_restart_reads_the_snapshot_and_of_the_history_its_end() -> None:
    async def main(world: World) -> None:
        feed = await feed_of(world)
        await feed.upto(1, 20)
        await feed.snapshot_of(20)
        assert feed.history.asked[0] == 0
        for last in (25, 31):
            asked = len(feed.history.asked)
            await feed.restart()
            assert feed.history.asked[asked] > 10
            assert feed.status("rebuilds") == {}
            await feed.upto(int(feed.rows()[-1]["id"]) + 1, last)
            await feed.snapshot_of(last)
        assert feed.rows() == expected(31)

    run(main)


@pytest.mark.parametrize("config", [CONFIG, ROUTED])
def test_what_it_knows_does_not_grow_with_the_versions_of_a_table(config: DrainerConfig) -> None:
    async def main(world: World) -> None:
        feed = await feed_of(world, config)
        await feed.upto(1, 30)
        await feed.snapshot_of(30)
        assert 0 < feed.status("structures") <= 2
        feed.pump.commit([(307, 306, feed.history.row(29)[2])], 307)
        await feed.read(307)
        assert feed.rows()[-1] == {**expected(29)[-1], "c29": None}

    run(main)


@pytest.mark.parametrize("lead", [0, 1, 5])
def test_a_row_below_what_is_folded_is_decoded_right_after_a_restart(lead: int) -> None:
    """The feed stands at job 20; the history is ahead of it, and what is ahead is not folded."""

    async def main(world: World) -> None:
        feed = await feed_of(world)
        await feed.upto(1, 20)
        feed.history.jobs_made = 20 + lead
        await feed.snapshot_of(20)
        await feed.restart()
        feed.pump.commit([(207, 206, feed.history.row(20)[2])], 207)
        await feed.read(207)
        assert feed.rows()[-1] == expected(20)[-1]
        await feed.upto(21, 26)
        assert feed.rows()[-6:] == expected(26)[-6:]

    run(main)


def test_a_ddl_that_is_not_published_is_tracked_and_leaves_nothing_behind() -> None:
    """T9. Columns are added by DDLs that the policy skips; the rows have them."""
    config = msgspec.structs.replace(CONFIG, ddl_policy={"add_column": "skip"})

    async def main(world: World) -> None:
        feed = await feed_of(world, config)
        await feed.upto(1, 2)
        bucket = Bucket(world.ports().bus, SCHEMAS)
        sizes: list[int] = []
        for last in range(12, 60, 12):
            feed.history.jobs_made = last
            lead = [feed.history.binlog(n) for n in range(last - 9, last)]
            feed.pump.commit(lead, (last - 1) * STEP)
            await feed.upto(last, last)
            await feed.snapshot_of(last)
            await feed.restart()
            state = await bucket.state()
            assert state is not None
            sizes.append(state.messages)
        assert feed.rows() == [row for row in expected(48) if row["id"] in (2, 12, 24, 36, 48)]
        assert [
            ddl for change in feed.found for ddl in change.ddls if ddl.kind == "add_column"
        ] == []
        public = [later - sooner for sooner, later in pairwise(sizes[1:])]
        assert public == [1, 1], "the structure of the row's version, nothing for the DDLs between"

    run(main)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize(("config", "named"), [(CONFIG, "app.t."), (ROUTED, "copy.u.")])
def test_a_lost_bucket_is_made_again_from_the_history_loudly(
    config: DrainerConfig, named: str, down: bool
) -> None:
    async def structures(bucket: Bucket) -> set[str]:
        return {key for key in (await bucket.entries())[0] if not key.startswith("schema/")}

    async def main(world: World) -> None:
        feed = await feed_of(world, config)
        await feed.upto(1, 20)
        await feed.snapshot_of(20)
        bucket = Bucket(world.ports().bus, SCHEMAS)
        before = await structures(bucket)
        assert before == {f"{named}{version}" for version in range(2, 21)}
        if down:
            feed.node.kill()
        await world.ports().bus.stream_delete(bucket.stream)
        if down:
            await feed.start()
        await feed.upto(21, 22)
        assert feed.status("rebuilds") == {"lost": 1}
        wanted = before | {f"{named}{version}" for version in (21, 22)}
        after = await structures(bucket)
        assert after == wanted, "readers of the stream may still ask for every one of them"
        await feed.snapshot_of(22)
        await feed.restart()
        await feed.upto(23, 24)
        assert feed.rows() == expected(24)
        assert feed.status("rebuilds") == {}

    run(main)


@pytest.mark.parametrize("accept_loss", [False, True])
@pytest.mark.parametrize("what", ["its beginning", "its end", "its end, bucket kept"])
def test_a_history_that_lacks_jobs_is_a_stop_that_names_the_choices(
    what: str, accept_loss: bool
) -> None:
    """T17: schema state deleted, and nobody can make it again."""

    async def main(world: World) -> None:
        feed = await feed_of(world, msgspec.structs.replace(CONFIG, accept_loss=accept_loss))
        await feed.upto(1, 20)
        await feed.snapshot_of(20)
        feed.node.kill()
        if "kept" not in what:
            await world.ports().bus.stream_delete(Bucket(world.ports().bus, SCHEMAS).stream)
        if "beginning" in what:
            feed.history.from_job = 12
        else:
            feed.history.upto_job = 12
        if accept_loss:
            await feed.start()
            return
        feed.node.restart()
        error = await feed.stopped()
        assert "the DDL history" in error
        for choice in ("ddl-history", "a feed of another name", "--accept-loss"):
            assert choice in error
        # Mended, it goes on where it was.
        feed.history.from_job, feed.history.upto_job = 1, 1 << 60
        await feed.restart()
        await feed.upto(21, 23)
        assert feed.rows() == expected(23)

    run(main)


@pytest.mark.parametrize("key", ["schema/root", "schema/index/0", "schema/page/1"])
def test_a_damaged_snapshot_is_made_again_loudly(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "KEEP_JOBS", 0)
    monkeypatch.setattr(store, "FOLD_JOBS", 1)

    async def main(world: World) -> None:
        feed = await feed_of(world)
        await feed.upto(1, 20)
        await feed.snapshot_of(20)
        feed.node.kill()
        bucket = Bucket(world.ports().bus, SCHEMAS)
        for slot in ("", "/0", "/1"):
            if await bucket.get(key + slot) is not None:
                await bucket.put(key + slot, b"something else")
        await feed.start()
        feed.pump.commit([(207, 206, feed.history.row(20)[2])], 207)
        await feed.upto(21, 24)
        assert feed.rows()[-4:] == expected(24)[-4:]
        assert feed.status("rebuilds") == {"damaged": 1}

    run(main)


def test_a_feed_that_goes_on_below_its_snapshot_makes_it_again() -> None:
    """Its stream was lost, and is filled again for its readers."""

    async def main(world: World) -> None:
        feed = await feed_of(world)
        await feed.upto(1, 20)
        await feed.snapshot_of(20)
        feed.node.kill()
        await world.ports().bus.stream_delete(subjects.changes_stream(FEED))
        await feed.start()
        assert feed.status("rebuilds") == {"position": 1}
        reader = ChangeReader(world.ports().bus, FEED, 0)
        found: list[Change] = []
        while not found or found[-1].commit_ts < 202:
            found += await reader.next(0.5)
        versions = [ddl.schema_version for change in found for ddl in change.ddls]
        assert versions == list(range(1, 21))

    run(main)
