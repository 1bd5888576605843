"""The original's pb_binlog files into MariaDB by Spark: what TiDB had, with its DDL history and, as
far as their texts tell it, without."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from tests.fixtures.capture import DATA, raw
from tests.fixtures.downstream_rows import connect, mariadb_differences
from tests.fixtures.test_downstream_sets import NOT_HELD, clean, url
from tests.servers import MariaDb
from tests.spark.local import SETTINGS
from tests.unit.backfill import pb_logs
from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.told import Report
from tidelog.changes import Event
from tidelog.pb_files.reader import binlogs
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_backfill.replay.run import replay

NAME = "binlog-0000000000000000-20261121102000"
HISTORY = f"file:{DATA / 'set-a' / 'ddl_history.json.xz'}"


S = pb_logs.SECOND
OLD = TableStructure(
    "old",
    1,
    columns=(
        ColumnStructure("id", "int", "int"),
        ColumnStructure("e", "enum('a','b')", "enum", elems=("a", "b")),
        ColumnStructure("j", "json", "json"),
    ),
)
NEW = msgspec.structs.replace(OLD, columns=(*OLD.columns, ColumnStructure("n", "int", "int")))
T = TableStructure(
    "t",
    1,
    columns=(
        ColumnStructure("id", "int", "int"),
        ColumnStructure("v", "varchar(9)", "varchar"),
        ColumnStructure("n", "int", "int"),
    ),
)
WRITTEN = {"id": 2, "e": "b", "j": {"k": None}}
LOG = (
    pb_logs.rows(
        1 * S,
        OLD,
        Event("u", 1 * S, before={"id": 2, "e": "a", "j": []}, after=WRITTEN),
        Event("d", 1 * S, before={"id": 1, "e": "a", "j": []}),
    ),
    pb_logs.ddl(
        2 * S, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` VARCHAR(9) DEFAULT _UTF8MB4'x')"
    ),
    pb_logs.inserted(3 * S, "t", id=1),
    # The original's order: a row that has the column stands ahead of the DDL.
    pb_logs.rows(4 * S, T, Event("c", 4 * S, after={"id": 2, "v": "y", "n": 5})),
    pb_logs.ddl(5 * S, "ALTER TABLE `t` ADD COLUMN `n` INT DEFAULT 5"),
    pb_logs.rows(5 * S + 1, T, Event("d", 5 * S + 1, before={"id": 2, "v": "y", "n": 5})),
    pb_logs.ddl(6 * S, "ALTER TABLE `old` ADD COLUMN `n` INT, ADD INDEX `k`(`n`)"),
    pb_logs.rows(6 * S + 1, NEW, Event("c", 6 * S + 1, after=WRITTEN | {"id": 3, "n": 7})),
    pb_logs.ddl(7 * S, "RENAME TABLE `t` TO `t2`"),
    pb_logs.ddl(8 * S, "CREATE TABLE `nokey` (`a` INT)"),
    pb_logs.inserted(9 * S, "nokey", a=1),
    pb_logs.inserted(9 * S, "nokey", a=1),
)


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    directory = tmp_path / "golden"
    directory.mkdir()
    (directory / NAME).write_bytes(raw("set-a", f"golden/file/{NAME}"))
    return directory


def replayed(
    session: SparkSession, server: MariaDb, directory: Path, until_ts: int = 0, history: str = ""
) -> Report:
    job = ReplayJob(
        inputs=(str(directory),),
        ddl_history=history,
        downstream=url(server),
        until_ts=until_ts,
        spark=SETTINGS,
    )
    return replay(session, job, lambda _: None)


@pytest.mark.timeout(240)
def test_the_originals_files_come_to_what_tidb_held(
    session: SparkSession, server: MariaDb, golden: Path
) -> None:
    """It is ended on the way, and goes on from there."""
    clean(server)
    times = [one.commit_ts for one in binlogs(golden)]
    half = replayed(session, server, golden, times[len(times) // 2], HISTORY)
    assert half.commit_ts == times[len(times) // 2]
    report = replayed(session, server, golden, history=HISTORY)
    assert report.commit_ts == times[-1]
    assert mariadb_differences("set-a", server) == []
    assert set(report.warnings) <= set(NOT_HELD["mariadb"]["set-a"])


def test_without_a_history_texts_and_the_downstream_tell_structures(
    session: SparkSession, server: MariaDb, tmp_path: Path
) -> None:
    """It is ended behind each DDL, and goes on from there."""
    clean(server)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.old (id INT PRIMARY KEY, e ENUM('a','b'), j JSON)")
        cursor.execute("INSERT INTO shop.old VALUES (1, 'a', '[]'), (2, 'a', '[]')")
        connection.commit()
        pb_logs.write(tmp_path, *LOG)
        for until in (3 * S, 6 * S, 0):
            report = replayed(session, server, tmp_path, until)
        assert (report.commit_ts, report.warnings) == (9 * S, [])
        found = {}
        for table in ("old", "t2", "nokey"):
            cursor.execute(f"SELECT * FROM shop.{table} ORDER BY 1")
            found[table] = cursor.fetchall()
    assert found["old"] == (("2", "b", '{"k":null}', None), ("3", "b", '{"k":null}', "7"))
    assert found["t2"] == (("1", "x", "5"),)
    assert found["nokey"] == (("1",), ("1",))
