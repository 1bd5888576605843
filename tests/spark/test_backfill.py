"""Backfills on a local Spark, with real MariaDBs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.acceptance.upstream.contents import ask
from tests.fixtures.test_downstream_sets import clean
from tests.servers import MariaDb
from tests.spark.backfill_rig import FEED, Rig, play, rig
from tidelog import subjects
from tidelog.change_bodies import rows_of
from tidelog.downstream import Checkpoint
from tidelog.errors import Refused
from tidelog.ports import Message
from tidelog.real.bus import NatsBus
from tidelog_backfill.snapshot.feed import CopyDone
from tidelog_backfill.snapshot.run import backfill

ROWS = 20_000
COLUMNS = (
    "\n  `id` bigint(20) NOT NULL,\n  `x` decimal(8,2) DEFAULT NULL,"
    "\n  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */\n"
)
OPTIONS = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"


@pytest.fixture(scope="module")
def on(mariadb: MariaDb, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    clean(mariadb)
    with rig(tmp_path_factory.mktemp("backfill"), mariadb, ROWS) as found:
        yield found


@pytest.mark.timeout(240)
def test_a_table_that_changes_while_it_is_copied_and_the_stream_after_it(
    on: Rig, session: SparkSession, tmp_path: Path
) -> None:
    report = play(on, session, tmp_path, seed=8)
    assert "between the snapshot's timestamp and the copy's end" in report.guarantee
    last = on.progress[-1]
    assert last.done == last.total >= 10
    first = next(one for one in on.progress if one.total)
    assert first.done >= on.chunks_before, "it goes on behind the chunks that are done"
    assert 0 < report.rows < ROWS, "what was copied before it ended is copied again"


def test_a_database_with_rows_is_refused(on: Rig, session: SparkSession) -> None:
    with pytest.raises(Refused, match="another Applier writes"):
        backfill(session, on.job(), on.progress.append)
    on.leave()
    with pytest.raises(Refused, match="up to"):
        backfill(session, on.job(), on.progress.append)
    with pytest.raises(Refused, match=r"rows already: shop\.a_still, shop\.item, shop\.word"):
        backfill(
            session, on.job(checkpoint_table="tidb_binlog.other", cluster_id=7), on.progress.append
        )


def test_a_copy_into_parquet(on: Rig, session: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "copy")
    job = on.job(downstream=None, parquet=place, tables=("shop.i*",), chunk_rows=5000)
    report = backfill(session, job, on.progress.append)
    assert report.tables == 1
    copied = session.read.parquet(f"{place}/shop.item").orderBy("id").collect()
    rows = ask(on.source, "select *, cast(at as char) from shop.item order by id")
    assert [tuple(row) for row in copied] == [(*row[:4], row[6], row[5]) for row in rows]
    assert backfill(session, job, on.progress.append).rows == 0, "it is there already"


def test_a_copy_into_the_feed(on: Rig, session: SparkSession) -> None:
    job = on.job(downstream=None, to_feed=True, tables=("shop.word",), chunk_rows=2000)
    report = backfill(session, job, on.progress.append)
    messages = asyncio.run(_stream(on))
    rows = [message for message in messages if ".row." in message.subject]
    events = [event for message in rows for event in rows_of(message).events]
    assert {event.op for event in events} == {"r"}
    found = sorted((one.after["a"], one.after["b"], one.after["c"]) for one in events if one.after)
    assert found == sorted(ask(on.source, "select a, b, c from shop.word"))
    assert events[0].key == {name: events[0].after[name] for name in "ab"}  # type: ignore[index]
    done = msgspec.json.decode(messages[-1].data, type=CopyDone)
    assert done.ts == report.commit_ts < done.reach


def test_a_dump_into_a_database(on: Rig, session: SparkSession, tmp_path: Path) -> None:
    """Read at the dump's timestamp, so also rows without a key are there once."""
    ts = 470_000_000_000_000_000
    files = {
        "metadata": f"SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {ts}\n\tGTID:\n",
        "d-schema-create.sql": "CREATE DATABASE `d`;\n",
        "d.log-schema.sql": f"CREATE TABLE `log` (`n` int(11), `b` blob) {OPTIONS};\n",
        "d.log.000000000.sql": "INSERT INTO `log` VALUES\n(1,'a\\n'),\n(1,'a\\n'),\n(NULL,0xff);\n",
        "d.t-schema.sql": f"/*!40101 SET NAMES x*/;\nCREATE TABLE `t` ({COLUMNS}) {OPTIONS};\n",
        "d.t.000000000.csv": '"id","x"\n1,1.50\n2,\\N\n',
        "d.t.000000001.csv": '"id","x"\n3,0.10\n',
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    job = on.job(
        source=str(tmp_path), feed="dumped", checkpoint_table="tidb_binlog.dumped", nats_url=None
    )
    report = backfill(session, job, on.progress.append)
    assert (report.commit_ts, report.rows, report.tables) == (ts, 6, 2)
    assert ask(on.target, "select id, cast(x as char) from d.t order by id") == [
        *((1, "1.50"), (2, None), (3, "0.10"))
    ]
    assert sorted(ask(on.target, "select n, hex(b) from d.log"), key=repr) == [
        *((1, "610A"), (1, "610A"), (None, "FF"))
    ]
    ((text,),) = ask(on.target, "select checkPoint from tidb_binlog.dumped")
    saved = msgspec.json.decode(text, type=Checkpoint)
    assert (saved.commit_ts, saved.consistent, saved.feed) == (ts, True, "dumped")


async def _stream(on: Rig) -> list[Message]:
    bus = await NatsBus.connect(on.job().nats_url)
    try:
        name = subjects.snap_stream(FEED)
        state = await bus.stream_state(name)
        assert state is not None
        reader = await bus.read(name, start_seq=1)
        found: list[Message] = []
        while len(found) < state.messages:
            found += await reader.next_batch(500, 1.0)
        await reader.close()
        return found
    finally:
        await bus.close()
