"""A column's values as the stream's JSON has them, as Arrow has them. Pure.

A whole column is converted at once; one by one only where a value does not fit its type, as those
from before an ALTER may not: these become null.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.schema.structure import ColumnStructure
from tidelog_backfill.column_types import arrow_type

_WIDEST = 38
"""Longer texts may be of more digits than Arrow has: it reads them wrongly."""
_UNFIT = (ArithmeticError, TypeError, ValueError)
"""What is raised of a value that has no place in a type: Arrow's errors are these, too."""
_STRING = msgspec.json.Decoder(str)
_Convert = Callable[[Sequence[Any], pa.DataType], pa.Array]


class ColumnValues:
    """Of one column."""

    def __init__(self, column: ColumnStructure) -> None:
        self.name = column.name
        self._kind = arrow_type(column)
        self._is_json = column.base == "json"
        self._convert, self._convert_one = _ways(column, self._kind)

    def array(self, values: Sequence[Any], encoded: Sequence[int]) -> pa.Array:
        """`values`: of a JSON column the documents as Raw. `encoded`: of which rows they are
        base64; of binary columns all are, and this says nothing."""
        if self._is_json:
            values = _documents(values, encoded)
        elif encoded and self._convert is not _binaries:
            values = _readable(values, encoded)
        try:
            return self._convert(values, self._kind)
        except _UNFIT:
            return pa.concat_arrays([self._one(value) for value in values])

    def _one(self, value: Any) -> pa.Array:
        try:
            return self._convert_one([value], self._kind)
        except _UNFIT:
            return pa.nulls(1, self._kind)


def _ways(column: ColumnStructure, kind: pa.DataType) -> tuple[_Convert, _Convert]:
    """Of a whole column; of a value that did not fit. They raise one of _UNFIT."""
    if pa.types.is_binary(kind):
        return _binaries, _binaries
    if column.base == "decimal" and pa.types.is_decimal(kind):
        return _decimals, _long_decimals
    if pa.types.is_decimal(kind):
        return _unsigned, _unsigned
    if pa.types.is_temporal(kind):
        return _moments, _moments
    if pa.types.is_floating(kind):
        return pa.array, _floats
    return (pa.array, _strings) if pa.types.is_string(kind) else (pa.array, pa.array)


def _binaries(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else b64decode(value) for value in values], kind)


def _decimals(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    texts = pa.array(values, pa.string())
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _WIDEST:
        raise ValueError(f"more than {_WIDEST} characters")
    return texts.cast(kind)


def _long_decimals(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)


def _unsigned(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array(values, pa.uint64()).cast(kind)


def _strings(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else str(value) for value in values], kind)


def _floats(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Of integers that a float only comes near to."""
    return pa.array([None if value is None else float(value) for value in values], kind)


def _moments(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Dates and times; those with zeros are null."""
    texts = pa.array(values, pa.string())
    has_zeros = pc.or_(pc.starts_with(texts, "0000"), pc.match_substring(texts, "-00"))
    texts = pc.if_else(has_zeros, None, texts)
    if pa.types.is_date(kind):
        return texts.cast(kind)
    return texts.cast(pa.timestamp(kind.unit)).cast(kind)


def _documents(values: Sequence[msgspec.Raw], encoded: Sequence[int]) -> list[str | None]:
    """`encoded`: the document null, which else is an SQL NULL."""
    texts = [bytes(value) for value in values]
    documents = [None if text in (b"", b"null") else text.decode() for text in texts]
    for row in encoded:
        if documents[row] is not None:
            documents[row] = b64decode(_STRING.decode(texts[row])).decode(errors="replace")
    return documents


def _readable(values: Sequence[Any], encoded: Sequence[int]) -> list[Any]:
    """Texts that are no UTF-8, as near as UTF-8 comes."""
    readable = list(values)
    for row in encoded:
        if isinstance(readable[row], str):
            readable[row] = b64decode(readable[row]).decode(errors="replace")
    return readable
