"""What one append writes: the frames of pieces and batches, and what is handed on once they are
durable. Pure."""

from __future__ import annotations

from tidelog.errors import InvariantBroken
from tidelog.ports import Buffer
from tidelog.relay import records
from tidelog.relay.batches import (
    Handed,
    Incoming,
    Piece,
    Structures,
    TableKey,
    Whole,
    small,
)
from tidelog.relay.files import Part
from tidelog.relay.spill import Spill


class Writing:
    """Items, in order, for the end of one file. `stored` grows by the tables whose structures go
    with them. `end`: commit_ts of the batch before, then of the last one added."""

    def __init__(
        self,
        part: Part,
        structures: Structures,
        stored: set[TableKey],
        spill: Spill | None,
        end: int,
    ) -> None:
        self._part = part
        self._structures = structures
        self._stored = stored
        self._at = part.file.size
        self.spill = spill
        self.end = end
        self.chunks: list[Buffer] = []
        self.handed: list[Handed] = []
        self.whole_up_to = self._at
        """The offset behind the last whole batch."""

    def add(self, item: Incoming) -> None:
        """Raises InvariantBroken for one that does not follow."""
        tables = item.tables - self._stored
        self._stored |= tables
        if isinstance(item, Piece):
            if self.spill is None or not item.number:
                self.spill = Spill(self._part, self._at, item.attempt)
            self.spill.add(item, self._structures)
            self._frame(records.piece(item, tables, self._structures))
        else:
            self._close(item, tables)

    def _close(self, item: Whole, tables: frozenset[TableKey]) -> None:
        if item.commit_ts <= self.end:
            raise InvariantBroken(f"a batch at {item.commit_ts} comes after {self.end}")
        pieces_at = 0
        if not item.pieces:
            self.handed.append(small(item, self._structures))
        elif self.spill is not None:
            pieces_at = self.spill.begin
            self.handed.append(self.spill.close(item, self._at))
        else:
            raise InvariantBroken(f"no piece of attempt {item.attempt} is there")
        self._frame(records.batch(item, self.end, pieces_at, tables, self._structures))
        self.end, self.spill, self.whole_up_to = item.commit_ts, None, self._at

    def _frame(self, chunks: list[Buffer]) -> None:
        self.chunks += chunks
        self._at += sum(map(len, chunks))
