"""A backfill's rate is shared by the tasks that are at work, however few there are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from tidelog.bulk.jobs import BackfillJob
from tidelog_backfill.snapshot.plan import Chunk
from tidelog_backfill.snapshot.run import backfill
from tidelog_backfill.snapshot.task import Copied, CopyTask

OF_TIDB = "SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: 470000000000000000\n"
RATE = 1_000_000
CORES = 4


class Here:
    """What a job asks of Spark, done in one thread. `rates`: of each wave's tasks."""

    def __init__(self) -> None:
        self.sparkContext = MagicMock()
        self.sparkContext.defaultParallelism = CORES
        self.sparkContext.parallelize = lambda chunks, _: _Chunks(chunks, self.rates)
        self.sparkContext.statusTracker().getJobIdsForGroup.return_value = []
        self.rates: list[float] = []


class _Chunks:
    def __init__(self, chunks: Sequence[Chunk], rates: list[float]) -> None:
        self._chunks, self._rates = chunks, rates
        self._copied: list[Copied] = []

    def mapPartitionsWithIndex(self, task: CopyTask) -> _Chunks:  # noqa: N802 - as Spark has it
        self._rates.append(task.rows_per_s)
        for lane, chunk in enumerate(self._chunks):
            self._copied += task(lane, [chunk])
        return self

    def collect(self) -> list[Copied]:
        return self._copied


def copied(directory: Path, files: int, **more: Any) -> list[float]:
    """The rates of a copy of so many files."""
    dump = directory / "dump"
    dump.mkdir()
    (dump / "metadata").write_text(OF_TIDB)
    (dump / "d.t-schema.sql").write_text("CREATE TABLE `t` (`id` int PRIMARY KEY);\n")
    for number in range(files):
        (dump / f"d.t.{number}.csv").write_text(f"{number}\n")
    job = BackfillJob(source=str(dump), parquet=str(directory / "copy"), feed="shop", **more)
    here = Here()
    report = backfill(here, job, lambda _: None)  # type: ignore[arg-type]
    assert report.rows == files
    return here.rates


@pytest.mark.parametrize(
    ("files", "parts", "at_work"),
    [(1, 0, [1]), (3, 0, [3]), (8, 0, [4]), (10, 0, [4, 2]), (4, 2, [2, 2])],
)
def test_no_core_that_has_nothing_to_do_has_a_share(
    tmp_path: Path, files: int, parts: int, at_work: list[int]
) -> None:
    found = copied(tmp_path, files, parts=parts, rows_per_s=RATE)
    assert found == [RATE / tasks for tasks in at_work]


def test_no_limit_is_none(tmp_path: Path) -> None:
    assert copied(tmp_path, 2) == [0]
