"""A replay that ended within a segment goes on: what is written is not written again, what is not
is; and connections that break are nothing to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.servers import MariaDb
from tests.spark import applied, histories
from tests.spark.local import SETTINGS
from tests.spark.relay_files import FEED, RelayFiles
from tidelog.bulk.jobs import ReplayJob
from tidelog.downstream import Work
from tidelog.downstreams.mysql_lane import MysqlLane
from tidelog.errors import Unavailable
from tidelog_backfill.replay import run
from tidelog_backfill.replay.run import replay
from tidelog_backfill.replay.step import carried_out

STEP = "tidelog_backfill.replay.step"
PARTS = 4


class Ended(Exception):
    """The driver is gone."""


@pytest.fixture
def job(server: MariaDb, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReplayJob:
    """Whose segments are spread over all parts."""
    monkeypatch.setattr(f"{STEP}.LEAST_BYTES", 1 << 10)
    relay = RelayFiles(tmp_path / "relay")
    histories.write(relay, 5, 2000)
    relay.close()
    return ReplayJob(
        inputs=(str(tmp_path / "relay"),),
        downstream=applied.url(server),
        feed=FEED,
        tables=("d.wide", "d.bytes", "d.loose"),
        parts=PARTS,
        spark=SETTINGS,
    )


@pytest.mark.parametrize("small", [0, 1 << 40])
def test_parts_that_are_written_are_not_written_again(
    session: SparkSession,
    server: MariaDb,
    job: ReplayJob,
    monkeypatch: pytest.MonkeyPatch,
    small: int,
) -> None:
    """With Spark and without it: after the first segment's parts, before its checkpoint."""
    monkeypatch.setattr(f"{STEP}.SMALL_BYTES", small)

    async def and_ended(*what: Any) -> None:
        await carried_out(*what)
        raise Ended

    replay(session, job, lambda _: None)
    expected = applied.contents(server)
    applied.clear(server)
    with monkeypatch.context() as patched:
        patched.setattr(run, "carried_out", and_ended)
        with pytest.raises(Ended):
            replay(session, job, lambda _: None)
    parts = [part for (part,) in applied.sql(server, "SELECT part FROM tidb_binlog.replay")]
    assert sorted(parts) == list(range(PARTS))
    before = set(applied.sql(server, "SELECT id FROM d.wide"))
    applied.sql(server, "DELETE FROM d.wide")
    applied.sql(server, "DELETE FROM tidb_binlog.replay WHERE part = 1")
    with monkeypatch.context() as patched:
        patched.setattr(run, "carried_out", and_ended)
        with pytest.raises(Ended):
            replay(session, job, lambda _: None)
    again = set(applied.sql(server, "SELECT id FROM d.wide"))
    assert set() < again < before
    applied.sql(server, "DELETE FROM tidb_binlog.replay")
    replay(session, job, lambda _: None)
    assert applied.contents(server) == expected


def test_a_connection_that_breaks_is_made_anew(
    session: SparkSession, server: MariaDb, job: ReplayJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a transaction, and behind one, of which then nobody knows whether it is there."""
    replay(session, job, lambda _: None)
    expected = applied.contents(server)
    applied.clear(server)
    apply, calls = MysqlLane.apply, 0

    async def breaking(lane: MysqlLane, work: Work) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise Unavailable("broken before")
        await apply(lane, work)
        if calls == 3:
            raise Unavailable("broken behind")

    monkeypatch.setattr(MysqlLane, "apply", breaking)
    replay(session, job, lambda _: None)
    assert calls > 3
    assert applied.contents(server) == expected
