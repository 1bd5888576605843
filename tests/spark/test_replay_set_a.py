"""What a real TiDB's Pump had in its data directory, by Spark into MariaDB: TiDB's contents."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.fixtures.capture import DATA, ExpectedTable, records, steps
from tests.fixtures.compare import differences
from tests.fixtures.downstream_rows import mariadb_differences, read
from tests.servers import MariaDb, mariadb_server
from tests.spark import applied
from tests.spark.test_replay import SETTINGS, replayed
from tidelog.bulk.jobs import ReplayJob
from tidelog_backfill.session import spark

STEPS = 3
SEED = 8
NOT_HELD = [
    "index app.expridx.expression_index: it is on an expression",
    "sequence misc.sq2: its present value is not followed",
    "sequence misc.sq: its present value is not followed",
]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    found = spark(SETTINGS)
    yield found
    found.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("set-a")) as found:
        yield found


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("pump")
    with tarfile.open(DATA / "set-a" / "pump_data_dir.tar.gz") as tar:
        tar.extractall(found, filter="data")
    (value,) = found.rglob("value")
    return value.parent


def job(server: MariaDb, directory: Path, until_ts: int = 0) -> ReplayJob:
    return ReplayJob(
        inputs=(str(directory),),
        downstream=applied.url(server),
        ddl_history=f"file:{DATA / 'set-a' / 'ddl_history.json.xz'}",
        cluster_id=records("set-a")[0].cluster_id,
        until_ts=until_ts,
        spark=SETTINGS,
    )


def test_a_pump_of_the_original_comes_to_what_tidb_held(
    session: SparkSession, server: MariaDb, directory: Path
) -> None:
    clear(server)
    report = replayed(session, job(server, directory))
    assert mariadb_differences("set-a", server) == []
    assert sorted(set(report.warnings)) == NOT_HELD


def test_up_to_a_step_it_comes_to_what_tidb_held_then(
    session: SparkSession, server: MariaDb, directory: Path
) -> None:
    told = [
        (int(step.last_txn["commit_ts"]), step.tables)
        for step in steps("set-a")
        if step.tables and step.last_txn and step.last_txn["commit_ts"]
    ]
    clear(server)
    for commit_ts, tables in sorted(Random(SEED).sample(told, STEPS), key=lambda one: one[0]):
        report = replayed(session, job(server, directory, until_ts=commit_ts))
        assert report.commit_ts == commit_ts
        for name, then in tables.items():
            assert differing(server, name, then) == []


def clear(server: MariaDb) -> None:
    ours = {"information_schema", "mysql", "performance_schema", "sys"}
    for (name,) in applied.sql(server, "SHOW DATABASES"):
        if name not in ours:
            applied.sql(server, f"DROP DATABASE `{name}`")


def differing(server: MariaDb, name: str, then: dict[str, Any]) -> list[str]:
    """`then`: the table's columns and rows, or only how many they were."""
    db, _, table = name.partition(".")
    types = applied.sql(
        server,
        "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS"
        f" WHERE TABLE_SCHEMA = '{db}' AND TABLE_NAME = '{table}'",
    )
    expected = ExpectedTable(
        db, table, "BASE TABLE", "", types, then.get("cols", []), then.get("rows", [])
    )
    columns, rows = read(server, expected)
    if "rows" not in then:
        return [] if len(rows) == then["count"] else [f"{name}: {len(rows)} rows"]
    return differences(expected, columns, rows)
