"""Copies that meet an Applier, a job that asks for something else, and their own half."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from tests.adapters.backfill.copies_rig import PLAIN, Copy, S, connected, sql, url
from tests.servers import MariaDb, mariadb_server
from tidelog.downstream import Checkpoint, DownstreamOptions, TakenOver
from tidelog.downstreams import open_downstream
from tidelog.downstreams.state_tables import CONTROL, lock_name
from tidelog.errors import Refused, Stopped, Unavailable
from tidelog_backfill.snapshot import mysql_source
from tidelog_backfill.snapshot.batches import BATCH_BYTES
from tidelog_backfill.snapshot.mysql_source import MysqlSource
from tidelog_backfill.snapshot.plan import Chunk
from tidelog_backfill.snapshot.source import Rows
from tidelog_backfill.snapshot.values import RowImages, stored

ROWS = 3000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("source"), *PLAIN) as found:
        sql(
            found,
            "create database shop",
            "create table shop.item (id int primary key, note varchar(40))",
            f"insert into shop.item select seq, repeat('x', 40) from shop.seq_1_to_{ROWS}",
        )
        yield found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("target"), *PLAIN) as found:
        yield found


@pytest.fixture
def target(server: MariaDb) -> MariaDb:
    sql(server, "drop database if exists shop", "drop database if exists tidb_binlog")
    return server


def applied(target: MariaDb, commit_ts: int) -> None:
    """What an Applier leaves that got so far; of an earlier release, which also went on over a copy
    that was not whole."""

    async def main() -> None:
        downstream = open_downstream(DownstreamOptions(url=url(target), copies=True))
        await downstream.open("main")
        await downstream.save_checkpoint(Checkpoint(commit_ts, consistent=True, feed="main"))
        await downstream.close()

    asyncio.run(main())


def test_a_living_applier_keeps_its_downstream(source: MariaDb, target: MariaDb) -> None:
    def refused() -> None:
        with (
            closing(Copy(source, target)) as copy,
            pytest.raises(Refused, match="another Applier writes"),
        ):
            copy.kept()

    async def main() -> None:
        applier = open_downstream(DownstreamOptions(url=url(target)))
        await applier.open("main")
        await asyncio.to_thread(refused)
        await applier.save_checkpoint(Checkpoint(S, feed="main"))
        await applier.close()

    asyncio.run(main())


def test_one_that_is_not_whole_is_nobody_s_to_go_on_with(source: MariaDb, target: MariaDb) -> None:
    """An Applier took it over, ended its job, and began at the feed's beginning: what the copy had
    not written was missing from then on. So did a replay."""

    def refused(**more: Any) -> None:
        downstream = open_downstream(DownstreamOptions(url=url(target), **more))
        with pytest.raises(Refused, match=f"first copy into .* as of {S}, is not whole"):
            asyncio.run(downstream.open("main"))

    with closing(Copy(source, target)) as copy:
        plan = copy.begin()
        copy.done(plan)
        copy.write(plan, plan.chunks[:1])
        refused()  # its own connection lives
        copy.write(plan, plan.chunks[1:2])
    refused()
    refused(if_free=True)
    with closing(Copy(source, target)) as again:
        assert again.kept() == plan
        done = again.done(plan)
        assert done == {0, 1}
        again.write(plan, [chunk for chunk in plan.chunks if chunk.number not in done])
        again.finish(plan)
    applier = open_downstream(DownstreamOptions(url=url(target)))

    async def goes_on() -> int:
        opened = await applier.open("main")
        await applier.close()
        assert opened.checkpoint is not None
        return opened.checkpoint.commit_ts

    assert asyncio.run(goes_on()) == S


@pytest.mark.parametrize("commit_ts", [S - 1, S, S + 7])
def test_half_a_copy_that_an_applier_went_on_with_is_refused(
    source: MariaDb, target: MariaDb, commit_ts: int
) -> None:
    with closing(Copy(source, target)) as copy:
        plan = copy.begin()
        copy.done(plan)
        copy.write(plan, plan.chunks[:1])
    applied(target, commit_ts)
    with closing(Copy(source, target)) as again:
        assert again.kept() == plan
        missing = len(plan.chunks) - 1
        with pytest.raises(Refused, match=f"up to {commit_ts}, and {missing} of") as refused:
            again.done(plan)
    assert "tidb_binlog.checkpoint" in refused.value.hint


def test_a_whole_one_that_was_not_forgotten_is_done(source: MariaDb, target: MariaDb) -> None:
    with closing(Copy(source, target)) as copy:
        plan = copy.begin()
        copy.done(plan)
        copy.write(plan, plan.chunks)
    applied(target, S + 7)
    with closing(Copy(source, target)) as again:
        assert again.kept() == plan
        assert again.done(plan) == frozenset(range(len(plan.chunks)))
        again.finish(plan)
        with pytest.raises(Refused, match=f"up to {S + 7}"):
            again.kept()
    assert sql(target, "select count(*) from shop.item") == [(ROWS,)]


def test_a_finished_one_is_whole_whatever_a_replay_forgets(
    source: MariaDb, target: MariaDb
) -> None:
    with closing(Copy(source, target)) as copy:
        plan = copy.begin()
        copy.done(plan)
        copy.write(plan, plan.chunks)
        assert not copy.is_whole(plan)
        copy.say_finished(plan)
    sql(target, "delete from tidb_binlog.replay")
    with closing(Copy(source, target)) as again:
        assert again.kept() == plan
        assert again.is_whole(plan)
        again.finish(plan)
    assert sql(target, "select count(*) from tidb_binlog.backfill") == [(0,)]


LOCK = lock_name("main", CONTROL)


def lost(target: MariaDb) -> None:
    """The connection that a copy asks its target over."""
    ((connection,),) = sql(target, f"select is_used_lock('{LOCK}')")
    sql(target, f"kill {connection}")
    wait = f"select get_lock('{LOCK}', 10), release_lock('{LOCK}')"
    assert sql(target, wait) == [(1, 1)]


@pytest.mark.parametrize("noticed", [True, False])
def test_a_copy_that_lost_its_idle_connection_ends_by_another(
    source: MariaDb, target: MariaDb, noticed: bool
) -> None:
    """Also where the server has not heard of it, and the old one still holds the lock."""
    with closing(Copy(source, target)) as copy, closing(connected(target)) as former:
        plan = copy.begin()
        copy.done(plan)
        copy.write(plan, plan.chunks)
        lost(target)
        if not noticed:
            with former.cursor() as at:
                at.execute(f"select get_lock('{LOCK}', 10)")
                assert at.fetchall() == ((1,),)
        copy.finish(plan)
    with closing(Copy(source, target)) as again, pytest.raises(Refused, match=f"up to {S}"):
        again.kept()


def test_who_took_a_copy_over_keeps_its_target(source: MariaDb, target: MariaDb) -> None:
    with closing(Copy(source, target)) as copy:
        plan = copy.begin()
        copy.done(plan)
        copy.write(plan, plan.chunks)
        lost(target)
        applied(target, S + 7)
        with pytest.raises(TakenOver):
            copy.finish(plan)
    with closing(Copy(source, target)) as again:
        assert again.kept() == plan
        assert again.done(plan) == frozenset(range(len(plan.chunks)))
        again.finish(plan)
        with pytest.raises(Refused, match=f"up to {S + 7}"):
            again.kept()


def test_a_kept_plan_that_can_not_be_read_is_gone_on_with_by_nobody(
    source: MariaDb, target: MariaDb
) -> None:
    with closing(Copy(source, target)) as copy:
        copy.begin()
    sql(target, "update tidb_binlog.backfill set plan = left(plan, 20)")
    with closing(Copy(source, target)) as again:
        with pytest.raises(
            Stopped, match=r"the backfill's plan in mysql://.* can't be read"
        ) as bad:
            again.kept()
        assert "delete its rows in `tidb_binlog`.`backfill`" in bad.value.hint
        sql(target, "delete from tidb_binlog.backfill")
        assert again.kept() is None


@contextmanager
def large(source: MariaDb, batch_rows: int = 10) -> Iterator[Rows]:
    """Rows, more than the sockets between hold."""
    sql(
        source,
        "create or replace table shop.large (id int primary key, body longblob)",
        "insert into shop.large select seq, repeat('x', 100000) from shop.seq_1_to_400",
    )
    origin = MysqlSource(url(source), "")
    (table,) = origin.found(("shop.large",), S).tables
    with origin.read(table, Chunk(0, 0), S, batch_rows) as batches:
        yield batches


def killed(source: MariaDb, batches: Rows) -> None:
    next(batches)
    reading = "select id from information_schema.processlist where info like 'SELECT `id`%'"
    ((connection,),) = sql(source, reading)
    sql(source, f"kill {connection}")
    deque(batches, maxlen=0)


def test_large_rows_are_few_at_once(source: MariaDb) -> None:
    with large(source, 5000) as batches:
        sizes = [len(batch) for batch in batches]
    assert sum(sizes) == 400
    assert max(sizes) == -(-BATCH_BYTES // 100_000)


def test_a_connection_that_is_lost_in_a_chunk_is_typed(source: MariaDb) -> None:
    with pytest.raises(Unavailable), large(source) as batches:
        killed(source, batches)


def test_a_source_waits_for_a_slow_reader(source: MariaDb) -> None:
    sql(source, "set global net_write_timeout = 1")
    with large(source) as batches:
        rows = len(next(batches))
        sql(source, "select sleep(3)")
        rows += sum(len(batch) for batch in batches)
    assert rows == 400


def test_a_time_limit_of_applications_queries_is_none_of_a_copys(source: MariaDb) -> None:
    """A chunk takes as long as its target does, and as the job's rate lets it."""
    sql(source, "set global max_statement_time = 1")
    try:
        with large(source) as batches:
            rows = len(next(batches))
            sql(source, "set statement max_statement_time = 0 for select sleep(3)")
            rows += sum(len(batch) for batch in batches)
    finally:
        sql(source, "set global max_statement_time = 0")
    assert rows == 400


def test_a_geometry_is_refused_by_its_name(source: MariaDb) -> None:
    sql(source, "create or replace table shop.place (id int primary key, at point)")
    with pytest.raises(Refused, match=r"copied: shop\.place\.at \(point\)") as refused:
        MysqlSource(url(source), "").found(("shop.*",), S)
    assert "all others" in refused.value.hint


def test_a_text_that_comes_as_no_utf8_is_named_by_its_table(
    source: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a TiDB may hold one that was told to skip its check."""
    sql(
        source,
        "create or replace table shop.word (id int primary key, v varchar(9)) charset utf8mb4",
        "insert into shop.word values (1, 'café')",
    )
    assert contents(source, "shop.word") == [{"id": 1, "v": "café"}]
    latin = (*mysql_source._OURS, "SET SESSION character_set_results = latin1")
    monkeypatch.setattr(mysql_source, "_OURS", latin)
    with pytest.raises(Stopped, match=r"no UTF-8: b'caf\\xe9': shop\.word: SELECT"):
        contents(source, "shop.word")


def contents(source: MariaDb, name: str) -> list[dict[str, Any]]:
    origin = MysqlSource(url(source), "")
    (table,) = origin.found((name,), S).tables
    images = RowImages(stored(table.structure))
    with origin.read(table, Chunk(0, 0), S, 10) as batches:
        return [image.row for batch in batches for image in images.of(batch)]


SETTINGS = (
    "sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'",
    "sql_select_limit = 1",
    "tx_isolation = 'READ-UNCOMMITTED'",
)


@pytest.fixture
def odd_settings(source: MariaDb) -> Iterator[None]:
    names = [setting.split()[0] for setting in SETTINGS]
    before = sql(source, f"select {', '.join(f'@@global.{name}' for name in names)}")[0]
    sql(source, *(f"set global {setting}" for setting in SETTINGS))
    yield
    for name, value in zip(names, before, strict=True):
        sql(source, f"set global {name} = {value!r}")


def test_a_servers_global_settings_change_no_row(source: MariaDb, odd_settings: None) -> None:
    sql(
        source,
        "create or replace table shop.odd"
        " (id int primary key, c char(4), n decimal(10,2) zerofill)",
        "insert into shop.odd values (1, 'a', 1.5), (2, '', 0)",
    )
    with closing(connected(source)) as other, other.cursor() as at:
        at.execute("begin")
        at.execute("insert into shop.odd values (3, 'x', 3)")
        assert contents(source, "shop.odd") == [
            {"id": 1, "c": "a", "n": "1.50"},
            {"id": 2, "c": "", "n": "0.00"},
        ]
        other.rollback()
