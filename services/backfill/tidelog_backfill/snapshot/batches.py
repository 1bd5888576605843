"""Rows of a source in batches that memory holds, however large the rows are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tidelog.downstreams.literals import Kind
from tidelog.downstreams.writing import kind_of
from tidelog.schema.structure import ColumnStructure

BATCH_BYTES = 4 << 20
"""Of values, about: a target holds some of them, as images and as statements."""
_OF_ANY_SIZE = (Kind.TEXT, Kind.BINARY, Kind.JSON)


def batches(
    rows: Iterable[Sequence[Any]], columns: Sequence[ColumnStructure], most: int
) -> Iterator[list[Sequence[Any]]]:
    """At most so many rows each, and no more behind the one that makes them BATCH_BYTES. `columns`:
    those of a row's values, texts and bytes among them as such."""
    sized = [at for at, column in enumerate(columns) if kind_of(column) in _OF_ANY_SIZE]
    batch: list[Sequence[Any]] = []
    size = 0
    for row in rows:
        batch.append(row)
        for at in sized:
            size += len(row[at] or ())
        if len(batch) >= most or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
