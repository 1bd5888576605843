"""Rows of the change stream as Parquet has them."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import fs

from tidelog.errors import BadInput
from tidelog.schema.structure import ColumnStructure

_INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"))
_DECIMAL_DIGITS = 38
_UNSIGNED = pa.decimal128(20, 0)
"""Readers of Parquet know no unsigned 64-bit integers."""


def arrow_type(column: ColumnStructure) -> pa.DataType:
    """Times stay MySQL's text: zero dates and hours beyond 24 have no other type."""
    if column.binary:
        return pa.binary()
    match column.base:
        case "bigint" if column.unsigned:
            return _UNSIGNED
        case "bit" if column.length == 64:
            return _UNSIGNED
        case base if base in _INTEGERS:
            return pa.int64()
        case "decimal" if 0 < column.length <= _DECIMAL_DIGITS:
            return pa.decimal128(column.length, max(0, column.scale))
        case "float":
            return pa.float32()
        case "double":
            return pa.float64()
    return pa.string()


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Of the stream's values of a column; JSON documents are msgspec.Raw."""
    if pa.types.is_decimal(kind):
        texts = [None if value is None else str(value) for value in values]
        return pa.array(texts, pa.string()).cast(kind)
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else b64decode(value) for value in values], kind)
    if pa.types.is_string(kind):
        texts = [bytes(v).decode() if isinstance(v, msgspec.Raw) else v for v in values]
        return pa.array(texts, kind)
    return pa.array(values, kind)


def place_of(url: str) -> tuple[fs.FileSystem, str]:
    """A path, or any URL that pyarrow knows. Raises BadInput."""
    try:
        if "://" in url:
            files, path = fs.FileSystem.from_uri(url)
            return files, str(path).rstrip("/")
        return fs.LocalFileSystem(), url.rstrip("/")
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(
            f"{url} can't be written: {error}", hint="a path, file://, s3://, gs://"
        ) from error
