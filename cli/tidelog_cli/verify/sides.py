"""What comparing needs of a database."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import NamedTuple, Protocol

import msgspec

from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput
from tidelog.unreadable import NOT_READABLE
from tidelog_cli.verify.kinds import Plain
from tidelog_cli.verify.tables import Part, Table

Key = tuple[Plain, ...]
Row = tuple[Plain, ...]


class Sum(NamedTuple):
    """Of the hashes of some rows, whatever their order; each row counts as often as it is there."""

    rows: int = 0
    high: int = 0
    low: int = 0

    def plus(self, row_hash: str) -> Sum:
        return Sum(
            self.rows + 1, self.high + int(row_hash[:16], 16), self.low + int(row_hash[16:], 16)
        )


class Range(NamedTuple):
    """Keys above `after`, up to `upto`; None = no bound."""

    after: Key | None = None
    upto: Key | None = None


class Bucket(NamedTuple):
    """Rows that a hash of their key (of their values, without a key) puts into `number`."""

    number: int
    of: int


Chunk = Range | Bucket


def checkpoint_of(text: str, shown: str) -> Checkpoint:
    """As an Applier wrote it. Raises BadInput."""
    try:
        return msgspec.json.decode(text, type=Checkpoint)
    except NOT_READABLE as error:
        raise BadInput(f"the checkpoint at {shown} can't be read: {error}") from error


class Side(Protocol):
    """One place, read as it was at one moment. Not for two tasks at once."""

    @property
    def shown(self) -> str:
        """Its URL without the password."""
        ...

    @property
    def moment(self) -> str:
        """As of when it is read, for the report."""
        ...

    async def fix(self, commit_ts: int) -> None:
        """From now on everything is read as it is now, or as it was at `commit_ts` where the
        server can."""
        ...

    async def checkpoints(self) -> list[Checkpoint]:
        """Of all feeds; the applied positions."""
        ...

    async def tables(self) -> list[Table]: ...

    async def upper(self, part: Part, chunk: Range, rows: int) -> Key | None:
        """The key of the `rows`-th row of the range; None if it has fewer."""
        ...

    async def sum(self, part: Part, chunk: Chunk) -> Sum: ...

    async def sums(self, part: Part, buckets: int) -> dict[int, Sum]:
        """By bucket, in one reading."""
        ...

    async def hashes(self, part: Part, chunk: Chunk) -> list[tuple[Key, str]]:
        """(key, row hash) of each row; the key is empty where the table has none."""
        ...

    async def rows(self, part: Part, chunk: Chunk, hashes: Set[str]) -> Sequence[Row]:
        """The rows of these hashes."""
        ...

    async def close(self) -> None: ...
