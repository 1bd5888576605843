"""A large batch while its pieces are written: which there are, and what closes it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.errors import InvariantBroken
from tidelog.relay import reading
from tidelog.relay.batches import (
    LargeBatch,
    Piece,
    Structures,
    TableKey,
    Whole,
    above,
    ddls_of,
)
from tidelog.relay.files import Part
from tidelog.schema.structure import TableStructure


@dataclass
class Spill:
    """Its first piece is at offset `begin` of `part`."""

    part: Part
    begin: int
    attempt: str
    pieces: int = 0
    structures: dict[TableKey, TableStructure] = field(default_factory=dict)

    def add(self, piece: Piece, structures: Structures) -> None:
        """Raises InvariantBroken for one that is not the next."""
        if (piece.attempt, piece.number) != (self.attempt, self.pieces):
            raise InvariantBroken(
                f"piece {piece.number} of attempt {piece.attempt} follows {self.pieces} pieces of"
                f" {self.attempt}"
            )
        self.pieces += 1
        self.structures.update({key: structures[key] for key in piece.tables})

    def close(self, whole: Whole, end: int) -> LargeBatch:
        """Its pieces are all there, up to offset `end`. Raises InvariantBroken."""
        if (whole.attempt, whole.pieces) != (self.attempt, self.pieces):
            raise InvariantBroken(
                f"{whole.pieces} pieces of attempt {whole.attempt} are closed, there are"
                f" {self.pieces} of {self.attempt}"
            )
        return LargeBatch(
            whole.commit_ts,
            whole.after,
            above(whole.txns, whole.after),
            ddls_of(whole.ddls),
            self.structures,
            end - self.begin,
            reading.large(self.part, self.begin, end, self.pieces),
        )
