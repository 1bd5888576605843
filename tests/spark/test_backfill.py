"""Backfills on a local Spark, with real MariaDBs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.acceptance.upstream.contents import ask
from tests.spark.backfill_rig import FEED, Rig, play, rig
from tidelog import subjects
from tidelog.bulk.jobs import SparkSettings
from tidelog.change_bodies import rows_of
from tidelog.errors import Refused
from tidelog.ports import Message
from tidelog.real.bus import NatsBus
from tidelog_backfill.session import spark
from tidelog_backfill.snapshot.feed import CopyDone
from tidelog_backfill.snapshot.run import backfill

ROWS = 20_000


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    found = spark(SparkSettings(master="local[2]"))
    yield found
    found.stop()


@pytest.fixture(scope="module")
def on(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with rig(tmp_path_factory.mktemp("backfill"), ROWS) as found:
        yield found


@pytest.mark.timeout(240)
def test_a_table_that_changes_while_it_is_copied_and_the_stream_after_it(
    on: Rig, session: SparkSession, tmp_path: Path
) -> None:
    report = play(on, session, tmp_path, seed=8)
    assert "between the snapshot's timestamp and the copy's end" in report.guarantee
    last = on.progress[-1]
    assert last.done == last.total >= 10
    assert 0 < report.rows < ROWS, "what was copied before it ended is copied again"


def test_a_database_with_rows_is_refused(on: Rig, session: SparkSession) -> None:
    with pytest.raises(Refused, match="up to"):
        backfill(session, on.job(), on.progress.append)
    with pytest.raises(Refused, match=r"rows already: shop\.item, shop\.word"):
        backfill(
            session, on.job(checkpoint_table="tidb_binlog.other", cluster_id=7), on.progress.append
        )


def test_a_copy_into_parquet(on: Rig, session: SparkSession, tmp_path: Path) -> None:
    place = str(tmp_path / "copy")
    job = on.job(downstream=None, parquet=place, tables=("shop.i*",))
    report = backfill(session, job, on.progress.append)
    assert report.tables == 1
    copied = session.read.parquet(f"{place}/shop.item").orderBy("id").collect()
    rows = ask(on.source, "select *, cast(at as char) from shop.item order by id")
    assert [tuple(row) for row in copied] == [(*row[:4], row[6], row[5]) for row in rows]
    assert backfill(session, job, on.progress.append).rows == 0, "it is there already"


def test_a_copy_into_the_feed(on: Rig, session: SparkSession) -> None:
    job = on.job(downstream=None, to_feed=True, tables=("shop.word",))
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
