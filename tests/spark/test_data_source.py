"""`spark.read.format("tidelog")`, on relay logs and Pumps' logs."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.fixtures.capture import DATA, ddl_history_json, expected
from tests.fixtures.stream import Stream, Txn
from tests.unit.backfill.relay_logs import of_several, write

LAST = 261
"""The relay's last commit_ts."""
CHANGES = 80


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("relay")
    batches = [(after, of_several(after, after + 1, after + 4)) for after in range(101, LAST, 4)]
    write(directory, *batches)
    return directory


def read(session: SparkSession, directory: Path, **options: str) -> DataFrame:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return session.read.format("tidelog").options(**named).load(str(directory))


def test_changes_of_a_relay_are_rows(session: SparkSession, relay: Path) -> None:
    rows = read(session, relay, chunk_bytes="5000").orderBy("commit_ts", "seq").collect()
    times = [ts for after in range(101, LAST, 4) for ts in (after + 1, after + 4)]
    assert [row.commit_ts for row in rows] == times
    first: dict[str, Any] = rows[0].asDict()
    assert msgspec.json.decode(first.pop("after")) == {"id": 102, "v": '"commit_ts":102'}
    assert msgspec.json.decode(first.pop("key")) == {"id": 102}
    assert first.pop("seq") > 0
    told = {"commit_ts": 102, "start_ts": 0, "db": "d", "table": "t1", "op": "c"}
    assert first == {**told, "before": None, "b64": []}


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("commit_ts > 104 AND commit_ts <= 110", 4),
        ("commit_ts >= 105 AND commit_ts < 110", 3),
        ("commit_ts = 105", 1),
        ("db = 'd' AND table = 't1'", CHANGES),
        ("table = 'T1'", 0),
        ("db = 'e'", 0),
        ("commit_ts = 105 OR db = 'e'", 1),
    ],
)
def test_filters_say_what_they_say(
    session: SparkSession, relay: Path, where: str, rows: int
) -> None:
    assert read(session, relay).where(where).count() == rows


def test_a_filter_on_commit_ts_is_done_by_the_source(session: SparkSession, relay: Path) -> None:
    plan = read(session, relay).where("commit_ts > 104 AND op = 'c'")._jdf.queryExecution()
    text = plan.executedPlan().toString()
    assert "op" in text.partition("Filter")[2].partition("\n")[0]
    assert "commit_ts" not in text.partition("Filter")[2].partition("\n")[0]


def test_options_say_from_when_to_when(session: SparkSession, relay: Path) -> None:
    found = read(session, relay, **{"from": "105", "until": "110", "tables": "d.*"})
    assert sorted(row.commit_ts for row in found.collect()) == [105, 106, 109, 110]
    with pytest.raises(PySparkException, match="there is no option tabels"):
        read(session, relay, tabels="x")


def test_a_schema_says_which_columns_are_read(session: SparkSession, relay: Path) -> None:
    reader = session.read.format("tidelog")
    rows = reader.schema("op string, commit_ts long").load(str(relay)).where("commit_ts < 106")
    assert sorted(map(tuple, rows.collect())) == [("c", 102), ("c", 105)]
    raw = reader.schema("kind string").option("rows", "raw").load(str(relay))
    assert {row.kind for row in raw.collect()} == {"header", "batch"}
    with pytest.raises(PySparkException, match="there is no column op bigint"):
        reader.schema("op long").load(str(relay)).count()


def test_records_are_told_as_they_lie(session: SparkSession, relay: Path) -> None:
    rows = read(session, relay, rows="raw", chunk_bytes="3000").orderBy("offset").collect()
    assert [row.kind for row in rows] == ["header", *["batch"] * (1 + CHANGES // 2)]
    assert rows[-1].commit_ts == LAST
    assert all(row.file == str(relay / "relay-000000") for row in rows)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("original")
    with tarfile.open(DATA / "set-a" / "pump_data_dir.tar.gz") as tar:
        tar.extractall(directory, filter="data")
    (directory / "history.json").write_bytes(ddl_history_json("set-a"))
    return directory


def test_the_originals_log_is_read_raw(session: SparkSession, original: Path) -> None:
    counts = read(session, original / "pump", rows="raw").groupBy("kind").count().collect()
    assert {row["kind"]: row["count"] for row in counts} == {
        "prewrite": 2145,
        "commit": 2101,
        "rollback": 44,
        "fake": 19,
    }


def test_the_originals_rows_are_named_by_the_ddl_history(
    session: SparkSession, original: Path
) -> None:
    history = f"file:{original / 'history.json'}"
    changes = read(session, original / "pump", ddl_history=history, chunk_bytes="1000000")
    counts = changes.groupBy("commit_ts", "db", "table", "op").count().collect()
    sent = Counter(
        (txn.commit_ts, part.table.db, part.table.name, change.op)
        for txn in Stream("set-a")
        if isinstance(txn, Txn)
        for part in txn.parts
        for change in part.changes
    )
    assert {tuple(row)[:4]: row["count"] for row in counts} == sent
    with pytest.raises(PySparkException, match="DDL history"):
        read(session, original / "pump").count()


def test_one_table_has_the_types_of_its_columns(session: SparkSession, original: Path) -> None:
    history = f"file:{original / 'history.json'}"
    found = read(session, original / "pump", ddl_history=history, table="app.t1")
    (table,) = [one for one in expected("set-a") if (one.db, one.table) == ("app", "t1")]
    assert found.columns == ["commit_ts", "op", *table.cols]
    last = {row["id"]: row for row in found.orderBy("commit_ts").where("commit_ts > 0").collect()}
    living = [row for row in last.values() if row["op"] != "d"]
    shown = sorted(
        [None if row[name] is None else str(row[name]) for name in table.cols] for row in living
    )
    assert shown == sorted(table.rows)


def test_damage_names_file_and_offset(session: SparkSession, relay: Path, tmp_path: Path) -> None:
    content = bytearray((relay / "relay-000000").read_bytes())
    content[5000] ^= 1
    (tmp_path / "relay-000000").write_bytes(content)
    with pytest.raises(PySparkException, match=r"relay-000000 at offset \d+: its checksum"):
        read(session, tmp_path).count()
    assert read(session, tmp_path, on_corrupt="skip").count() == CHANGES - 2
    found = read(session, tmp_path, rows="lost").orderBy("offset").collect()
    gap, damage = (row.asDict() for row in found)
    assert damage["file"] == str(tmp_path / "relay-000000")
    assert 0 < damage["offset"] <= 5000 < damage["offset"] + damage["bytes"]
    assert gap["until_ts"] - gap["after_ts"] == 4
    assert read(session, relay, rows="lost").count() == 0
