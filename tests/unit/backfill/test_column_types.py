"""Columns' types: as a query sees them, and in files that stay."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.unit.downstreams.shapes import column
from tidelog_backfill.column_types import arrow_type, file_type


@pytest.mark.parametrize(
    ("kind", "read", "stays"),
    [
        ("tinyint(4)", pa.int8(), pa.int64()),
        ("int(10) unsigned", pa.int64(), pa.int64()),
        ("bigint(20) unsigned", pa.decimal128(20, 0), pa.decimal128(20, 0)),
        ("bit(64)", pa.decimal128(20, 0), pa.decimal128(20, 0)),
        ("year(4)", pa.int16(), pa.int64()),
        ("float", pa.float32(), pa.float32()),
        ("date", pa.date32(), pa.string()),
        ("datetime(6)", pa.timestamp("us"), pa.string()),
        ("timestamp", pa.timestamp("us", "UTC"), pa.string()),
        ("time", pa.string(), pa.string()),
        ("varbinary(4)", pa.binary(), pa.binary()),
        ("enum('a','b')", pa.string(), pa.string()),
    ],
)
def test_files_have_the_same_types_but_for_widths_and_times(
    kind: str, read: pa.DataType, stays: pa.DataType
) -> None:
    shape = column("c", kind)
    assert (arrow_type(shape), file_type(shape)) == (read, stays)


def test_bits_are_numbers_as_wide_as_they_need() -> None:
    assert arrow_type(column("c", "bit(63)", length=63)) == pa.int64()
    assert arrow_type(column("c", "bit(64)", length=64)) == pa.decimal128(20, 0)
