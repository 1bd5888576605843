"""What a backfill copies, decided once and kept in its target, so another run goes on by it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

import msgspec

from tidelog.schema.structure import TableStructure
from tidelog_backfill.snapshot.key_range import WHOLE, KeyRange

CUTTABLE = frozenset(
    (
        *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal"),
        *("char", "varchar", "binary", "varbinary"),
        *("date", "datetime", "timestamp", "time"),
    )
)
"""Types whose literals compare as the key's index sorts. (An ENUM sorts by its numbers and compares
as text; a FLOAT equals no literal.)"""


class CopiedTable(msgspec.Struct, frozen=True):
    """`files`: of a dump, in order; none = a server has it. `ordered`: its rows are written
    one after the other, each once (`TableRule.ordered`), so it is one chunk."""

    db: str
    structure: TableStructure
    files: tuple[str, ...] = ()
    ordered: bool = False

    @property
    def shown(self) -> str:
        return f"{self.db}.{self.structure.name}"


class Chunk(msgspec.Struct, frozen=True):
    """Rows that one task reads and writes: of the plan's table number `table` a range of keys, or
    one of its files."""

    number: int
    table: int
    within: KeyRange = WHOLE
    file: str = ""


class Asked(msgspec.Struct, frozen=True):
    """What of a job says what is copied; `source` without a password."""

    feed: str
    source: str
    tables: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.tables) or 'all tables'} of {self.source} for feed {self.feed}"


class SnapshotPlan(msgspec.Struct, frozen=True):
    """`exact`: the rows are those of `ts`. If not, each row is as it was at some moment between
    `ts` and the copy's end, and what the stream has after `ts`, in safe mode, makes all of them
    right. `guarantee` says so for people. `asked`: what a job asks for that goes on with it.
    `warnings`: what is not copied."""

    ts: int
    exact: bool
    guarantee: str
    tables: list[CopiedTable]
    chunks: list[Chunk]
    asked: Asked
    warnings: list[str] = []

    @property
    def digest(self) -> str:
        """32 characters that no other plan has."""
        return sha256(msgspec.json.encode(self)).hexdigest()[:32]


def cut_key(structure: TableStructure) -> tuple[str, ...]:
    """The columns by whose ranges the table is cut; none = it is one chunk."""
    kinds = {column.name: column.base for column in structure.columns}
    for key in structure.keys:
        if not (key.primary or key.unique) or frozenset(key.columns) != frozenset(
            structure.key_columns
        ):
            continue
        whole = all(part.column and not part.length for part in key.parts)
        if whole and all(kinds.get(column) in CUTTABLE for column in key.columns):
            return key.columns
    return ()


def waves(chunks: Sequence[Chunk], done: frozenset[int], size: int) -> Iterator[list[Chunk]]:
    """What is left, `size` chunks at once. A table's chunks lie next to each other, so that a wave
    ends together."""
    left = [chunk for chunk in chunks if chunk.number not in done]
    for at in range(0, len(left), size):
        yield left[at : at + size]
