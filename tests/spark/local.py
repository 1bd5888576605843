"""Spark as the tests have it."""

from __future__ import annotations

from tidelog.bulk.jobs import SparkSettings

SETTINGS = SparkSettings(
    master="local[2]",
    settings={"spark.sql.shuffle.partitions": "2"},  # of queries: 200 tasks for a few rows else
)
