"""A kept plan is gone on with by a job that asks for the same, and by no other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.bulk.jobs import BackfillJob
from tidelog.errors import Refused
from tidelog_backfill.snapshot.plan import Asked, SnapshotPlan
from tidelog_backfill.snapshot.run import Backfill, refuse_another

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
    with asyncio.Runner() as loop:
        return Backfill(NO_SPARK, job, lambda _: None, loop).run()
