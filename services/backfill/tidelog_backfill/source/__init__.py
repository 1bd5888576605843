"""Logs as DataFrames: `spark.read.format("tidelog")`.

    from tidelog_backfill.source import TidelogSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(TidelogSource)
    changes = spark.read.format("tidelog").load("data/applier/relay")
    changes.where("db = 'shop' AND op = 'u'").groupBy("table").count().show()

Options: docs/replay.md, and `Options`.
"""

from tidelog_backfill.source.data_source import TidelogSource

__all__ = ["TidelogSource"]
