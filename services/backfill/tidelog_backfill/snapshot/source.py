"""Where a backfill reads: what every source can do.

Sources are blocking: the driver asks them before Spark runs, tasks read them in processes of their
own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

from tidelog_backfill.snapshot.plan import Chunk, CopiedTable

Rows = Iterator[Sequence[Sequence[Any]]]
"""Batches of rows, each in the order of `values.stored`, as the driver of `values.DECODERS` gives
them."""


class Found(msgspec.Struct, frozen=True):
    """Tables to copy, and what of the source is not copied, a sentence each. `others`: database and
    name of views and the like, which are not."""

    tables: list[CopiedTable]
    warnings: list[str] = []
    others: list[tuple[str, str]] = []

    @property
    def names(self) -> list[tuple[str, str]]:
        """Of all that is there, copied or not."""
        return [*((table.db, table.structure.name) for table in self.tables), *self.others]


class Source(Protocol):
    """Errors are typed: Unavailable, ConfigError, Stopped."""

    @property
    def shown(self) -> str:
        """For logs and errors, without a password."""

    @property
    def is_exact(self) -> bool:
        """Can it be read as it was at a timestamp?"""

    @property
    def is_now(self) -> bool:
        """Is it read as it is at this moment, so that a timestamp of now is older than no row?"""

    @property
    def guarantee(self) -> str:
        """What a copy of it is worth, one sentence."""

    def timestamp(self) -> int:
        """The moment it gives by itself; 0 = it knows no timestamps of the upstream."""

    def found(self, tables: Sequence[str], ts: int) -> Found:
        """Those of `db.table` that match a wildcard; none = all."""

    def chunks(self, tables: Sequence[CopiedTable], rows: int, ts: int) -> list[Chunk]:
        """Of about so many rows each."""

    def read(
        self, table: CopiedTable, chunk: Chunk, ts: int, batch_rows: int
    ) -> AbstractContextManager[Rows]:
        """The chunk's rows, in the key's order where it has one, so many at once, or fewer
        (`batches`)."""
