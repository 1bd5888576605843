"""The data source itself: what Spark asks, answered by the rooms beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.source import changes, raw_records, typed
from tidelog_backfill.source.options import Options, parse
from tidelog_backfill.source.pushdown import Window
from tidelog_backfill.source.tasks import Task, newest_structure, tasks


class TidelogSource(DataSource):
    """`spark.read.format("tidelog")`."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        options = parse(self.options)
        if options.table:
            return from_arrow_schema(typed.schema(newest_structure(options)))
        is_raw = options.rows == "raw"
        return from_arrow_schema(raw_records.SCHEMA if is_raw else changes.SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse(self.options)
        shape = newest_structure(options) if options.table else None
        return TidelogReader(options, shape)


class _Partition(InputPartition):
    def __init__(self, task: Task) -> None:
        self.task = task


class TidelogReader(DataSourceReader):
    """Each partition is a chunk of a file."""

    def __init__(self, options: Options, shape: TableStructure | None) -> None:
        self._options = options
        self._shape = shape
        self._window = Window(options.after_ts, options.until_ts)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        if self._options.rows == "raw":
            return filters
        return list(self._window.narrow(filters, names=self._shape is None))

    def partitions(self) -> Sequence[InputPartition]:
        return [_Partition(task) for task in tasks(self._options, self._window)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Partition)
        task, on_corrupt = partition.task, self._options.on_corrupt
        if task.view is None:
            return raw_records.batches(task.chunk, on_corrupt)
        shown = bodies(task.chunk, task.view, on_corrupt=on_corrupt)
        if self._shape is not None:
            return typed.batches(shown, self._shape)
        return changes.batches(shown)
