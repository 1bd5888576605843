"""The original Pump's own data directory into MariaDB by Spark: what TiDB had, at the end and on
the way, and what the Applier makes of the same."""

from __future__ import annotations

import asyncio
import os
import re
import tarfile
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fixtures import capture
from tests.fixtures.capture import DATA, ExpectedTable, Step, steps
from tests.fixtures.compare import differences
from tests.fixtures.downstream_rows import connect, mariadb_differences, read
from tests.fixtures.messages import Group, messages
from tests.fixtures.test_downstream_sets import NOT_HELD, clean, url
from tests.servers import MariaDb
from tests.spark.local import SETTINGS
from tests.unit.downstreams.shapes import share
from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.told import Report
from tidelog.downstream import Checkpoint, Downstream, DownstreamOptions, Lane, Work
from tidelog.downstreams import open_downstream
from tidelog.schema.tracker import SchemaTracker
from tidelog.subjects import escape
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.survey import survey
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.run import replay
from tidelog_backfill.replay.wanted import Wanted

PLACES = int(os.environ.get("TIDELOG_TEST_PLACES", "2"))
"""How many commit_ts are tried of each kind; 20 before a release."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("original")
    with tarfile.open(DATA / "set-a" / "pump_data_dir.tar.gz") as tar:
        tar.extractall(root, filter="data")
    return root / "pump"


def replayed(session: SparkSession, server: MariaDb, directory: Path, until_ts: int = 0) -> Report:
    job = ReplayJob(
        inputs=(str(directory),),
        ddl_history=f"file:{DATA / 'set-a' / 'ddl_history.json.xz'}",
        downstream=url(server),
        until_ts=until_ts,
        spark=SETTINGS,
    )
    return replay(session, job, lambda _: None)


@pytest.mark.timeout(120 + 30 * PLACES)
def test_the_originals_files_come_to_what_tidb_held_on_the_way_and_at_the_end(
    session: SparkSession, server: MariaDb, directory: Path
) -> None:
    """It is ended at each place, and goes on from there."""
    applied = asyncio.run(stopped_at(server, anywhere()))
    contents = {step.last_txn["commit_ts"]: step for step in chosen() if step.last_txn}
    clean(server)
    for commit_ts in sorted(contents.keys() | applied.keys()):
        assert replayed(session, server, directory, commit_ts).commit_ts == commit_ts
        if commit_ts in applied:
            here, there = dump(server), applied[commit_ts]
            assert [name for name in here | there if here.get(name) != there.get(name)] == []
        if commit_ts in contents:
            assert wrong(server, contents[commit_ts], columns(directory, commit_ts)) == []
    report = replayed(session, server, directory)
    assert mariadb_differences("set-a", server) == []
    assert report.commit_ts == max(commits())
    assert set(report.warnings) <= set(NOT_HELD["mariadb"]["set-a"])


def commits() -> list[int]:
    return [one.commit_ts for one in capture.pulled("set-a") if one.commit_ts != one.start_ts]


def anywhere() -> list[int]:
    return sorted(Random(8).sample(commits(), PLACES))


def chosen() -> list[Step]:
    """Steps that tell what their tables held: rows, not only how many."""
    told = [
        step
        for step in steps("set-a")
        if step.tables and step.last_txn and step.wire and step.wire[0] < step.wire[1]
        if all("rows" in content for content in step.tables.values())
    ]
    return Random(9).sample(told, PLACES)


def columns(directory: Path, commit_ts: int) -> dict[str, list[tuple[str, str]]]:
    """Names and types by table, as TiDB had them then."""
    tracker = SchemaTracker()
    tracker.add_jobs(capture.ddl_history("set-a"))
    facts = [survey(chunk) for chunk in found(directory).chunks()]
    last = plan(facts, Wanted(until_ts=commit_ts), history=tracker).segments[-1]
    return {
        key.rpartition(".")[0]: [(one.name, one.type) for one in shape.columns]
        for key, shape in last.structures.items()
    }


def wrong(server: MariaDb, step: Step, types: dict[str, list[tuple[str, str]]]) -> list[str]:
    lines: list[str] = []
    for name, content in step.tables.items():
        db, _, table = name.replace("``", "\0").replace("`", "").partition(".")
        table = table.replace("\0", "`")
        cols, rows = content["cols"], content["rows"]
        known = types[f"{escape(db)}.{escape(table)}"]
        expected = ExpectedTable(db, table, "BASE TABLE", "", known, cols, rows)
        lines += differences(expected, *read(server, expected))
    return lines


async def stopped_at(server: MariaDb, places: list[int]) -> dict[int, dict[str, Any]]:
    """What the database holds when the Applier's downstream got as far as each place."""
    clean(server)
    downstream = open_downstream(DownstreamOptions(url=url(server)))
    await downstream.open("sets")
    lane = await downstream.lane(0)
    held: dict[int, dict[str, Any]] = {}
    left = list(places)
    for item in messages("set-a"):
        while left and item.commit_ts > left[0]:
            if isinstance(item, Group):
                await _write(downstream, lane, item, max(held, default=0), left[0])
            held[left[0]] = dump(server)
            left.pop(0)
        done = max(held, default=0)
        if isinstance(item, Group):
            await _write(downstream, lane, item, done, item.commit_ts)
        else:
            await downstream.apply_ddl(item, Checkpoint(item.commit_ts, consistent=True))
    await downstream.close()
    return held | {place: dump(server) for place in left}


async def _write(downstream: Downstream, lane: Lane, group: Group, after: int, until: int) -> None:
    """Of a group what lies in (after, until]."""
    shares = []
    for one in group.changes:
        rule = await downstream.rule(one.db, one.structure)
        events = [event for event in one.events if after < event.commit_ts <= until]
        shares += share(one.db, one.structure, rule, events)
    await lane.apply(Work(shares, safe=True, checkpoint=Checkpoint(until, consistent=True)))


def dump(server: MariaDb) -> dict[str, Any]:
    """Every table and view: its definition, and its rows. (How far AUTO_INCREMENT has counted says
    which rows were written and deleted again; that depends on what is folded.)"""
    found: dict[str, Any] = {}
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT"
            " IN ('mysql', 'information_schema', 'performance_schema', 'sys', 'tidb_binlog')"
        )
        for db, name in cursor.fetchall():
            quoted = f"`{db}`.`" + name.replace("`", "``") + "`"
            cursor.execute(f"SHOW CREATE TABLE {quoted}")
            definition = re.sub(r" AUTO_INCREMENT=\d+", "", str(cursor.fetchall()))
            cursor.execute(f"SELECT * FROM {quoted}")
            found[quoted] = definition, sorted(cursor.fetchall(), key=repr)
    return found
