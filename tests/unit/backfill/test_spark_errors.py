"""What a job of Spark's fails by ends a copy and a replay as what it is: one that may pass is tried
again by whoever runs the job, another is not."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from tests.spark.relay_files import FEED
from tests.unit.backfill.test_run import relay
from tests.unit.backfill.test_run import surveyed_here as surveyed_here
from tests.unit.backfill.test_task_errors import RAISED
from tidelog.bulk.jobs import BackfillJob, ReplayJob
from tidelog.errors import Corrupt, Stopped, TidelogError, Unavailable
from tidelog_backfill.replay.run import replay
from tidelog_backfill.snapshot.run import backfill
from tidelog_backfill.task_errors import TaskFailed

TOLD = f"Traceback ... {TaskFailed(Corrupt('x', hint='restore it'))}"
LOST = "An error occurred while calling o77.collect.\n: o.a.s.SparkException: executor 3 is lost\n"
FAILURES = [
    (PySparkException(TOLD), Corrupt, "x"),
    (Py4JError(LOST), Unavailable, "Spark could not do it: .*: executor 3 is lost"),
    (PySparkException(RAISED), Stopped, "a task failed by AttributeError: .*"),
]


def failing(error: Exception) -> MagicMock:
    """A session whose actions fail by it."""

    def collect() -> NoReturn:
        raise error

    spark = MagicMock()
    spark.sparkContext.defaultParallelism = 2
    spark.sparkContext.parallelize().mapPartitionsWithIndex().collect = collect
    rows = spark.range().mapInArrow().repartitionById().sortWithinPartitions().mapInArrow()
    rows.collect = collect
    return spark


@pytest.mark.parametrize(("error", "kind", "says"), FAILURES)
def test_a_copy(tmp_path: Path, error: Exception, kind: type[TidelogError], says: str) -> None:
    dump = tmp_path / "dump"
    dump.mkdir()
    (dump / "d-schema-create.sql").write_text("CREATE DATABASE `d`;\n")
    (dump / "d.t-schema.sql").write_text("CREATE TABLE `t` (`id` int(11), PRIMARY KEY (`id`));\n")
    (dump / "d.t.0.csv").write_text("1\n")
    job = BackfillJob(source=str(dump), parquet=str(tmp_path / "copy"), snapshot_ts=100)
    with pytest.raises(kind, match=f"^{says}") as raised:
        backfill(failing(error), job, lambda _: None)
    assert raised.value.__cause__ is error


@pytest.mark.usefixtures("surveyed_here")
@pytest.mark.parametrize(("error", "kind", "says"), FAILURES)
def test_a_replay(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    kind: type[TidelogError],
    says: str,
) -> None:
    monkeypatch.setattr("tidelog_backfill.replay.step.SMALL_BYTES", 0)
    relay(tmp_path, 5)
    job = ReplayJob(inputs=(str(tmp_path / "relay"),), feed=FEED, parquet=str(tmp_path / "lake"))
    with pytest.raises(kind, match=f"^{says}") as raised:
        replay(failing(error), job, lambda _: None)
    assert raised.value.__cause__ is error
