"""Changes of one table with its columns as Spark's own types. Pure.

A row is as it was after its change; of a deletion as it was before. The columns are those of the
table's newest structure: one that a row does not have, or whose value has no place in the type (a
date with zeros), is null.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from tidelog.changes import Event
from tidelog.errors import BadInput
from tidelog.plan.decode import Decoded
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_backfill.column_types import arrow_type
from tidelog_backfill.files.chunk import Body

BATCH_ROWS = 8192
OWN = ("commit_ts", "op")
_json = msgspec.json.Encoder().encode
Convert = Callable[[Any], Any]


def schema(structure: TableStructure) -> pa.Schema:
    """Raises BadInput for a table whose columns are called like ours."""
    taken = {column.name.lower() for column in structure.columns} & set(OWN)
    if taken:
        raise BadInput(
            f"the table {structure.name} has a column {min(taken)} of its own",
            hint="read it with the option tables, as JSON",
        )
    columns = [(column.name, arrow_type(column)) for column in structure.columns]
    return pa.schema([("commit_ts", pa.int64()), ("op", pa.string()), *columns])


def batches(bodies: Iterable[Body], structure: TableStructure) -> Iterator[pa.RecordBatch]:
    """Raises UnparsablePayload."""
    shape = schema(structure)
    columns = [_Column(column) for column in structure.columns]
    for body in bodies:
        decoded = Decoded()
        decoded.add(body.body, body.after)
        for _, events in decoded.runs:
            for at in range(0, len(events), BATCH_ROWS):
                yield _batch(events[at : at + BATCH_ROWS], columns, shape)


def _batch(events: list[Event], columns: list[_Column], shape: pa.Schema) -> pa.RecordBatch:
    arrays = [
        pa.array([event.commit_ts for event in events], pa.int64()),
        pa.array([event.op for event in events], pa.string()),
        *(column.array(events) for column in columns),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=shape)


class _Column:
    def __init__(self, column: ColumnStructure) -> None:
        self._name = column.name
        self._binary = column.binary
        self._type = arrow_type(column)
        self._convert = _converter(column, self._type)

    def array(self, events: Iterable[Event]) -> pa.Array:
        return pa.array([self._value(event) for event in events], self._type)

    def _value(self, event: Event) -> Any:
        image = event.before if event.after is None else event.after
        value = None if image is None else image.get(self._name)
        if value is None:
            return None
        if self._binary:
            return b64decode(value)
        if self._name in event.b64:
            return b64decode(value).decode(errors="replace")
        return self._convert(value)


def _converter(column: ColumnStructure, kind: pa.DataType) -> Convert:
    if column.base == "json":
        return lambda value: _json(value).decode()
    if pa.types.is_decimal(kind):
        return lambda value: Decimal(str(value))
    if column.base == "date":
        return _date
    if column.base == "datetime":
        return _datetime
    if column.base == "timestamp":
        return _timestamp
    return str if pa.types.is_string(kind) else _same


def _same(value: Any) -> Any:
    return value


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _datetime(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _timestamp(text: str) -> datetime | None:
    moment = _datetime(text)
    return None if moment is None else moment.replace(tzinfo=UTC)
