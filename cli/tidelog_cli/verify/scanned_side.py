"""A place that gives its rows one after another: Python hashes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Protocol

from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput, InvariantBroken
from tidelog_cli.verify.kinds import Cell, Plain, bucket, of_cell, piece, row_hash
from tidelog_cli.verify.sides import Bucket, Chunk, Key, Range, Row, Sum
from tidelog_cli.verify.tables import Part, Table


class Cells(Protocol):
    """What is scanned: a file of one kind or another."""

    @property
    def shown(self) -> str: ...

    def fix(self) -> str:
        """Everything is read as it is now; how that is called in the report."""
        ...

    def checkpoints(self) -> list[Checkpoint]: ...

    def tables(self) -> list[Table]: ...

    def cells(self, part: Part) -> Iterator[Sequence[Cell]]:
        """Each row's values, in the part's columns."""
        ...

    def close(self) -> None: ...


class ScannedSide:
    """Chunks are buckets here: every question reads the whole table, and holds one row of it."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.moment = ""

    @property
    def shown(self) -> str:
        return self._cells.shown

    async def fix(self, commit_ts: int) -> None:
        self.moment = self._cells.fix()

    async def checkpoints(self) -> list[Checkpoint]:
        return self._cells.checkpoints()

    async def tables(self) -> list[Table]:
        return self._cells.tables()

    async def upper(self, part: Part, chunk: Range, rows: int) -> Key | None:
        raise InvariantBroken(f"{self.shown} is compared by buckets, never by ranges")

    async def sum(self, part: Part, chunk: Chunk) -> Sum:
        raise InvariantBroken(f"{self.shown} is compared by buckets, never by ranges")

    async def sums(self, part: Part, buckets: int) -> dict[int, Sum]:
        found: dict[int, Sum] = {}
        for row in self._rows(part):
            pieces = self._pieces(part, row)
            number = self._bucket(part, pieces, buckets)
            found[number] = found.get(number, Sum()).plus(row_hash(pieces))
        return found

    async def hashes(self, part: Part, chunk: Chunk) -> list[tuple[Key, str]]:
        names = [column.name for column in part.columns]
        at = [names.index(name) for name in part.key]
        return [(tuple(row[n] for n in at), text) for row, text in self._hashed(part, chunk)]

    async def rows(self, part: Part, chunk: Chunk, hashes: Set[str]) -> Sequence[Row]:
        return [row for row, text in self._hashed(part, chunk) if text in hashes]

    def _hashed(self, part: Part, chunk: Chunk) -> Iterator[tuple[Row, str]]:
        if not isinstance(chunk, Bucket):
            raise InvariantBroken(f"{self.shown} is compared by buckets, never by ranges")
        for row in self._rows(part):
            pieces = self._pieces(part, row)
            if self._bucket(part, pieces, chunk.of) == chunk.number:
                yield row, row_hash(pieces)

    def _rows(self, part: Part) -> Iterator[Row]:
        for cells in self._cells.cells(part):
            yield tuple(self._plain(part, at, cell) for at, cell in enumerate(cells))

    def _plain(self, part: Part, at: int, cell: Cell) -> Plain:
        try:
            return of_cell(part.columns[at].kind, cell)
        except ValueError as error:
            column = f"{part.db}.{part.table}.{part.columns[at].name}"
            raise BadInput(f"{column} at {self.shown} holds another kind: {error}") from error

    def _pieces(self, part: Part, row: Row) -> list[str]:
        return [piece(c.kind, value) for c, value in zip(part.columns, row, strict=True)]

    def _bucket(self, part: Part, pieces: list[str], of: int) -> int:
        chosen = [pieces[at] for at in part.bucketed]
        return bucket(chosen, of) if chosen else 0

    async def close(self) -> None:
        self._cells.close()
