"""The session as every job has it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidelog_backfill.session import TRIES


def test_tasks_have_this_package_and_are_tried_again(session: SparkSession) -> None:
    context = session.sparkContext
    assert context.master == f"local[2,{TRIES}]"
    assert session.conf.get("spark.sql.shuffle.partitions") == "2", "as the job has it"
    assert session.conf.get("spark.sql.session.timeZone") == "UTC"

    def where(_: object) -> list[str]:
        import tidelog_backfill

        return [tidelog_backfill.__name__]

    assert context.parallelize(range(2), 2).mapPartitions(where).collect() == [
        "tidelog_backfill",
        "tidelog_backfill",
    ]
