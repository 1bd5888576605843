"""Bulk work on Spark: the data source, replay of logs, first copies."""
