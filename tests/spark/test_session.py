"""The session as every job has it."""

from __future__ import annotations

from tidelog.bulk.jobs import SparkSettings
from tidelog_backfill.session import TRIES, spark


def test_tasks_have_this_package_and_are_tried_again() -> None:
    session = spark(SparkSettings(master="local[2]", settings={"spark.app.note": "mine"}))
    try:
        context = session.sparkContext
        assert context.master == f"local[2,{TRIES}]"
        assert session.conf.get("spark.app.note") == "mine"
        assert session.conf.get("spark.sql.session.timeZone") == "UTC"

        def where(_: object) -> list[str]:
            import tidelog_backfill

            return [tidelog_backfill.__name__]

        assert context.parallelize(range(2), 2).mapPartitions(where).collect() == [
            "tidelog_backfill",
            "tidelog_backfill",
        ]
    finally:
        session.stop()
