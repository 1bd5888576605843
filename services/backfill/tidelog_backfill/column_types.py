"""Which type of Arrow's, and so of Spark's, the values of a column have. Pure."""

from __future__ import annotations

import pyarrow as pa

from tidelog.schema.structure import ColumnStructure

_UNSIGNED = pa.decimal128(20, 0)
"""Spark and readers of Parquet know no unsigned 64-bit integers."""
_INTEGERS = {
    "tinyint": (pa.int8(), pa.int16()),
    "smallint": (pa.int16(), pa.int32()),
    "mediumint": (pa.int32(), pa.int32()),
    "int": (pa.int32(), pa.int64()),
    "bigint": (pa.int64(), _UNSIGNED),
    "year": (pa.int16(), pa.int16()),
}
"""Signed and unsigned."""
_PLAIN = {"float": pa.float32(), "double": pa.float64(), "date": pa.date32()}
_MOMENTS = {"datetime": pa.timestamp("us"), "timestamp": pa.timestamp("us", "UTC")}
_DECIMAL_DIGITS = 38


def arrow_type(column: ColumnStructure) -> pa.DataType:
    """Texts for what Spark has no type of: TIME, JSON, ENUM, SET, DECIMAL of more digits."""
    base = column.base
    if base in _INTEGERS:
        return _INTEGERS[base][column.unsigned]
    if base == "bit":
        return pa.int64() if 0 < column.length < 64 else _UNSIGNED
    if base == "decimal" and 0 < column.length <= _DECIMAL_DIGITS:
        return pa.decimal128(column.length, max(column.scale, 0))
    if base in _PLAIN:
        return _PLAIN[base]
    if base in _MOMENTS:
        return _MOMENTS[base]
    return pa.binary() if column.binary else pa.string()


def file_type(column: ColumnStructure) -> pa.DataType:
    """The same in a file that stays: integers are as wide as any, so that files from before and
    after an ALTER are read together; times stay MySQL's text, as zero dates have no other type."""
    kind = arrow_type(column)
    if pa.types.is_integer(kind):
        return pa.int64()
    return pa.string() if pa.types.is_temporal(kind) else kind
