"""The data source itself: what Spark asks, answered by the rooms beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from tidelog.errors import ConfigError, Corrupt, UnparsablePayload
from tidelog.leftovers import settle
from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.records import UNREADABLE_HINT
from tidelog_backfill.source import changes, losses, raw_records, typed
from tidelog_backfill.source.losses import Loss
from tidelog_backfill.source.options import Options, RowForm, parse
from tidelog_backfill.source.pushdown import Window
from tidelog_backfill.source.tasks import Task, grouped, lost, newest_structure, tasks


class TidelogSource(DataSource):
    """`spark.read.format("tidelog")`. Spark does not tell it which columns a query needs; a schema
    that is given, `.schema("commit_ts long, op string")`, does."""

    _shape: TableStructure | None = None

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    def schema(self) -> StructType:
        return from_arrow_schema(self._whole(parse(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = parse(self.options)
        return TidelogReader(options, chosen(schema, self._whole(options)), self._shape)

    def _whole(self, options: Options) -> pa.Schema:
        if not options.table:
            return _SCHEMAS[options.rows]
        if self._shape is None:
            self._shape = newest_structure(options)  # kept: the log has to be read for it
        return typed.schema(self._shape)


def chosen(schema: StructType, whole: pa.Schema) -> pa.Schema:
    """Its columns, as we have them. Raises ConfigError for one that is none of ours."""
    known = {field.name: field.dataType for field in from_arrow_schema(whole)}
    for field in schema:
        if known.get(field.name) != field.dataType:
            have = ", ".join(f"{name} {kind.simpleString()}" for name, kind in known.items())
            what = f"{field.name} {field.dataType.simpleString()}"
            raise ConfigError(f"there is no column {what}", hint=f"there are {have}")
    return pa.schema([whole.field(name) for name in schema.names])


_SCHEMAS: dict[RowForm, pa.Schema] = {
    "decoded": changes.SCHEMA,
    "raw": raw_records.SCHEMA,
    "lost": losses.SCHEMA,
}


class _Partition(InputPartition):
    def __init__(self, tasks: list[Task]) -> None:
        self.tasks = tasks


class _Lost(InputPartition):
    """It is known as soon as it is planned."""

    def __init__(self, found: list[Loss]) -> None:
        self.found = found


class TidelogReader(DataSourceReader):
    """Each partition is a chunk of a file, or a few small ones."""

    def __init__(
        self, options: Options, schema: pa.Schema, shape: TableStructure | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._shape = shape
        self._window = Window(options.after_ts, options.until_ts)

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802
        if self._options.rows != "decoded":
            return filters
        return list(self._window.narrow(filters, names=self._shape is None))

    def partitions(self) -> Sequence[InputPartition]:
        if self._options.rows == "lost":
            return [_Lost(lost(self._options, self._window))]
        found = tasks(self._options, self._window)
        return [_Partition(some) for some in grouped(found, self._options.chunk_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _Lost):
            yield losses.batch(partition.found, self._schema)
            return
        assert isinstance(partition, _Partition)
        settle()
        for task in partition.tasks:
            try:
                yield from self._read(task)
            except UnparsablePayload as error:
                raise Corrupt(
                    f"{task.chunk.path}: {error.message}", hint=UNREADABLE_HINT
                ) from error

    def _read(self, task: Task) -> Iterator[pa.RecordBatch]:
        on_corrupt = self._options.on_corrupt
        if task.view is None:
            return raw_records.batches(task.chunk, self._schema, on_corrupt)
        shown = bodies(task.chunk, task.view, on_corrupt=on_corrupt)
        if self._shape is not None:
            return typed.batches(shown, self._shape, self._schema)
        return changes.batches(shown, self._schema)
