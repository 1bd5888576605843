"""Relay logs into MariaDB by Spark: what the Applier makes of them, also up to anywhere."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import pytest
from pyarrow import parquet
from pyspark.sql import SparkSession

from tests.servers import MariaDb
from tests.spark import applied, histories
from tests.spark.local import SETTINGS
from tests.spark.relay_files import FEED, RelayFiles
from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.told import Progress, Report
from tidelog.downstream import Checkpoint, DownstreamOptions
from tidelog.downstreams import open_downstream
from tidelog.errors import BadInput, Refused
from tidelog_backfill.replay.run import replay

CHANGES = 6000
STEP = "tidelog_backfill.replay.step"
SMALL_BYTES = 64 << 10
"""Small, so that few rows make several tasks and parts of Spark's."""


class History(NamedTuple):
    """`commits`: of its transactions."""

    data_dir: Path
    commits: list[int]
    end: int

    def job(self, server: MariaDb, **more: object) -> ReplayJob:
        inputs = (str(self.data_dir / "relay"),)
        job = ReplayJob(inputs=inputs, downstream=applied.url(server), feed=FEED, spark=SETTINGS)
        return msgspec.structs.replace(job, **more)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    data_dir = tmp_path_factory.mktemp("applier")
    relay = RelayFiles(data_dir / "relay")
    commits = histories.write(relay, 8, CHANGES)
    relay.close()
    return History(data_dir, commits, relay.end)


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every segment, in several tasks on either side of the shuffle, and several buckets."""
    monkeypatch.setattr(f"{STEP}.SMALL_BYTES", 0)
    monkeypatch.setattr(f"{STEP}.LEAST_BYTES", SMALL_BYTES)
    monkeypatch.setattr(f"{STEP}.TASK_BYTES", SMALL_BYTES)
    monkeypatch.setattr(f"{STEP}.BUCKET_BYTES", SMALL_BYTES // 4)


def ignored(_: Progress) -> None:
    """Nobody looks."""


def replayed(session: SparkSession, job: ReplayJob) -> Report:
    return replay(session, job, ignored)


@pytest.mark.usefixtures("by_spark")
def test_a_relay_comes_to_what_the_applier_makes(
    session: SparkSession, server: MariaDb, history: History
) -> None:
    expected = applied.apply(server, history.data_dir, history.end)
    applied.clear(server)
    told: list[Progress] = []
    report = replay(session, history.job(server), told.append)
    assert applied.contents(server) == expected
    assert report.commit_ts == history.end
    assert (report.tables, report.segments, report.warnings) == (6, 2, [])
    assert report.written < CHANGES <= report.rows
    saved = msgspec.json.decode(applied.checkpoint(server), type=Checkpoint)
    assert (saved.commit_ts, saved.consistent, saved.feed) == (history.end, True, FEED)
    assert [stage for stage, _ in groupby(one.stage for one in told if one.stage != "ddl")] == [
        "reading",
        "planning",
        "replaying",
    ]
    assert all(one.done <= one.total for one in told)
    again = replayed(session, history.job(server))
    assert (again.rows, again.segments) == (0, 0)


def test_it_ends_where_it_is_told_and_goes_on_from_there(
    session: SparkSession, server: MariaDb, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In small segments that the driver writes itself, as the whole by Spark comes to."""
    with monkeypatch.context() as patched:
        patched.setattr(f"{STEP}.SMALL_BYTES", 0)
        replayed(session, history.job(server))
    expected = applied.contents(server)
    applied.clear(server)
    middle = Random(1).choice(history.commits[len(history.commits) // 2 :])
    small = {"segment_bytes": 1 << 16, "chunk_bytes": 1 << 16}
    report = replayed(session, history.job(server, until_ts=middle, **small))
    assert report.commit_ts == middle
    assert report.segments > 2
    with pytest.raises(BadInput, match="holds everything up to"):
        replayed(session, history.job(server, until_ts=middle - 1))
    replayed(session, history.job(server))
    assert applied.contents(server) == expected


@pytest.mark.usefixtures("by_spark")
def test_parquet_files_hold_the_last_change_of_every_key(
    session: SparkSession, server: MariaDb, history: History, tmp_path: Path
) -> None:
    """Also of a replay that ended in between."""
    replayed(session, history.job(server))
    middle = history.commits[len(history.commits) // 3]
    for until in (middle, 0):
        job = history.job(server, until_ts=until, downstream="", parquet=f"{tmp_path}/out")
        report = replayed(session, job)
    assert report.commit_ts == history.end
    wide = table_rows(tmp_path / "out" / "d.wide")
    last = {row["id"]: row for row in sorted(wide, key=stamp)}
    there = sorted((key, row["v"]) for key, row in last.items() if row["_op"] != "d")
    assert there == sorted(applied.sql(server, "SELECT id, v FROM d.wide"))
    left: Counter[tuple[int, str]] = Counter()
    for row in sorted(table_rows(tmp_path / "out" / "d.loose"), key=stamp):
        left[row["a"], row["b"]] += {"c": 1, "u": 1, "d": -1}[row["_op"]]
    assert len(left) == 6
    assert len(list((tmp_path / "out" / "_ddl").iterdir())) == 8


def test_what_is_left_out_is_counted_with_spark_as_without(
    session: SparkSession, history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = []
    for small in (0, 1 << 40):
        monkeypatch.setattr(f"{STEP}.SMALL_BYTES", small)
        inputs = (str(history.data_dir / "relay"),)
        out = f"{tmp_path}/{small}"
        job = ReplayJob(inputs=inputs, parquet=out, feed=FEED, tables=("d.wide",), spark=SETTINGS)
        counts.append(replayed(session, job).left_out)
    assert counts[0] == counts[1]
    assert 0 < counts[0].pop("not_wanted") < CHANGES
    assert counts[0] == {}


def table_rows(directory: Path) -> list[dict[str, Any]]:
    return [row for file in directory.iterdir() for row in parquet.read_table(file).to_pylist()]


def stamp(row: dict[str, Any]) -> tuple[int, int]:
    return row["_commit_ts"], row["_seq"]


def test_a_living_applier_keeps_its_downstream(
    session: SparkSession, server: MariaDb, history: History
) -> None:
    async def beside() -> None:
        downstream = open_downstream(DownstreamOptions(url=applied.url(server)))
        await downstream.open(FEED)
        try:
            with pytest.raises(Refused, match="another Applier"):
                await asyncio.to_thread(replayed, session, history.job(server))
        finally:
            await downstream.close()

    asyncio.run(beside())


def test_what_can_not_be_replayed_is_said(
    session: SparkSession, server: MariaDb, history: History, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match="feed shop, not of other"):
        replayed(session, history.job(server, feed="other"))
    with pytest.raises(BadInput, match="several processes"):
        replayed(session, history.job(server, downstream=f"sqlite:///{tmp_path}/x.db"))
