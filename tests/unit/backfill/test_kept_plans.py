"""A kept plan is gone on with by a job that asks for the same, and by no other."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.bulk.jobs import BackfillJob
from tidelog.errors import ConfigError, Refused, Stopped, TidelogError, Unavailable
from tidelog.schema.structure import TableStructure
from tidelog_backfill.snapshot import run
from tidelog_backfill.snapshot.dump_source import DumpSource
from tidelog_backfill.snapshot.parquet import LOCK
from tidelog_backfill.snapshot.parquet import PLAN as PLAN_FILE
from tidelog_backfill.snapshot.plan import Asked, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.refusals import refuse_another
from tidelog_backfill.snapshot.source import Found

S = 100
ASKED = Asked("f", "mysql://u@db:3306", ("shop.*",))
PLAN = SnapshotPlan(S, True, "exact", [], [], ASKED)
NO_SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))


def test_the_same() -> None:
    refuse_another(PLAN, ASKED, 0, "")
    refuse_another(PLAN, ASKED, S, "")


@pytest.mark.parametrize(
    ("asked", "ts"),
    [
        (Asked("g", ASKED.source, ASKED.tables), 0),
        (Asked("f", "mysql://u@other:3306", ASKED.tables), 0),
        (Asked("f", ASKED.source, ()), 0),
        (ASKED, S + 1),
    ],
)
def test_another_one(asked: Asked, ts: int) -> None:
    with pytest.raises(
        Refused, match=r"shop\.\* of mysql://u@db:3306 for feed f at 100"
    ) as refused:
        refuse_another(PLAN, asked, ts, "empty this one")
    assert refused.value.hint.endswith("or empty this one")


def test_a_directory_of_other_tables(tmp_path: Path) -> None:
    dump, place = tmp_path / "dump", str(tmp_path / "copy")
    dump.mkdir()
    for table in ("a", "b"):
        text = f"CREATE TABLE `{table}` (`id` int(11) NOT NULL, PRIMARY KEY (`id`));\n"
        (dump / f"d.{table}-schema.sql").write_text(text)
    (dump / "d-schema-create.sql").write_text("CREATE DATABASE `d`;\n")
    assert _run(dump, place, "d.a").tables == 1
    with pytest.raises(Refused, match=r"d\.b of .* is another"):
        _run(dump, place, "d.b")
    assert _run(dump, place, "d.a").tables == 1


def _run(dump: Path, place: str, table: str) -> Any:
    job = BackfillJob(source=str(dump), parquet=place, tables=(table,), snapshot_ts=S)
    return run.backfill(NO_SPARK, job, lambda _: None)


@pytest.mark.parametrize("data", [b"", b'{"ts":"x"}', b"\xff"])
def test_a_directory_whose_plan_can_not_be_read(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "d-schema-create.sql").write_text("CREATE DATABASE `d`;\n")
    (tmp_path / "d.t-schema.sql").write_text("CREATE TABLE `t` (`id` int(11));\n")
    place = tmp_path / "copy"
    place.mkdir()
    (place / PLAN_FILE).write_bytes(data)
    with pytest.raises(Stopped, match=f"{PLAN_FILE} is no plan of a backfill") as raised:
        _run(tmp_path, str(place), "d.t")
    assert raised.value.hint == "name another directory, or empty this one"
    assert [one.name for one in place.iterdir()] == [PLAN_FILE]


def test_a_dump_of_an_unknown_moment_is_not_copied_as_of_now(tmp_path: Path) -> None:
    """What was committed between the two would be in neither copy nor stream."""
    (tmp_path / "metadata").write_text("SHOW MASTER STATUS:\n\tLog: mysql-bin.000003\n\tPos: 4\n")
    (tmp_path / "d.t-schema.sql").write_text("CREATE TABLE `t` (`id` int(11));\n")
    place = str(tmp_path / "copy")
    job = BackfillJob(source=str(tmp_path), parquet=place, nats_url="nats://127.0.0.1:9")
    with pytest.raises(ConfigError, match="does not say at which timestamp") as refused:
        run.backfill(NO_SPARK, job, lambda _: None)
    assert "from before the dump was begun" in refused.value.hint


def test_a_directory_is_filled_by_who_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ended the one before, until its plan was kept."""
    dump, place = tmp_path / "dump", tmp_path / "copy"
    dump.mkdir()
    (dump / "d.t-schema.sql").write_text("CREATE TABLE `t` (`id` int(11));\n")

    def ended(*_: object) -> None:
        raise Unavailable("the source is gone")

    with monkeypatch.context() as patch:
        patch.setattr(DumpSource, "chunks", ended)
        with pytest.raises(Unavailable):
            _run(dump, str(place), "d.t")
    place.mkdir(exist_ok=True)
    (place / f"{PLAN_FILE}.new").write_text('{"ts":1')
    assert _run(dump, str(place), "d.t").tables == 1
    (place / PLAN_FILE).unlink()
    with pytest.raises(Refused, match="is not empty"):
        _run(dump, str(place), "d.t")


class Changing:
    """A source of now, whose table gets a column while the copy begins."""

    shown, is_exact, is_now, guarantee = "mysql://u@db:3306", False, True, ""
    asked = 0

    def timestamp(self) -> int:
        return 0

    def found(self, tables: Any, ts: int) -> Found:
        self.asked += 1
        return Found([CopiedTable("d", TableStructure("t", self.asked, key_columns=("id",)))])


def test_a_ddl_that_runs_while_a_copy_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "open_source", lambda *_: Changing())
    with pytest.raises(Unavailable, match=r"while the copy began: d\.t"):
        _run(tmp_path, str(tmp_path / "copy"), "d.t")
    assert [one.name for one in (tmp_path / "copy").iterdir()] == [LOCK]


@pytest.mark.parametrize(("error", "says"), [(Stopped("no"), True), (Unavailable("no"), False)])
def test_one_that_can_not_go_on_says_how_to_begin_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: TidelogError, says: bool
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(run, "waves", fails)
    (tmp_path / "d-schema-create.sql").write_text("CREATE DATABASE `d`;\n")
    (tmp_path / "d.t-schema.sql").write_text("CREATE TABLE `t` (`id` int(11));\n")
    job = BackfillJob(source=str(tmp_path), parquet=str(tmp_path / "copy"), snapshot_ts=S)
    with pytest.raises(type(error)) as raised:
        run.backfill(NO_SPARK, job, lambda _: None)
    assert ("to begin anew instead, name another directory" in raised.value.hint) == says
