"""The data source itself: what Spark asks, answered by the rooms beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.source import changes, raw_records
from tidelog_backfill.source.options import Options, parse
from tidelog_backfill.source.pushdown import Window
from tidelog_backfill.source.tasks import Task, tasks


class TidelogSource(DataSource):
    """`spark.read.format("tidelog")`."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        is_raw = parse(self.options).rows == "raw"
        return from_arrow_schema(raw_records.SCHEMA if is_raw else changes.SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TidelogReader(parse(self.options))


class _Partition(InputPartition):
    def __init__(self, task: Task) -> None:
        self.task = task


class TidelogReader(DataSourceReader):
    """Each partition is a chunk of a file."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._window = Window(options.after_ts, options.until_ts)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        return filters if self._options.rows == "raw" else list(self._window.narrow(filters))

    def partitions(self) -> Sequence[InputPartition]:
        return [_Partition(task) for task in tasks(self._options, self._window)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Partition)
        task, on_corrupt = partition.task, self._options.on_corrupt
        if task.view is None:
            return raw_records.batches(task.chunk, on_corrupt)
        return changes.batches(bodies(task.chunk, task.view, on_corrupt=on_corrupt))
