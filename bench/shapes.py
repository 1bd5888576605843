"""What `bench apply` writes: shapes of load, as changes of rows of one table. Pure.

A row is (number, version), as `bench.tables` has them; each change says which row it was and which
it becomes, so that a transaction can be encoded for a Pump, written as SQL, and summed up.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from bench.frames import Changes
from bench.tables import BenchTable

TRANSACTION = 20
"""Rows of a transaction, as many as the original puts together by default."""
SEED = 7


class Change(NamedTuple):
    """`before` and `after` are versions of row `number`; None = the row is not there."""

    number: int
    before: int | None
    after: int | None

    @property
    def op(self) -> str:
        return "c" if self.before is None else "d" if self.after is None else "u"


class Rows:
    """The table as it stands: numbers that are there, with their versions."""

    def __init__(self) -> None:
        self.versions: dict[int, int] = {}
        self._numbers: list[int] = []
        self._next = 0

    def insert(self) -> Change:
        number, self._next = self._next, self._next + 1
        self.versions[number] = 0
        self._numbers.append(number)
        return Change(number, None, 0)

    def update(self, number: int) -> Change:
        before = self.versions[number]
        self.versions[number] = before + 1
        return Change(number, before, before + 1)

    def delete(self, rng: random.Random) -> Change:
        at = rng.randrange(len(self._numbers))
        number, self._numbers[at] = self._numbers[at], self._numbers[-1]
        self._numbers.pop()
        return Change(number, self.versions.pop(number), None)

    def any(self, rng: random.Random) -> int:
        return self._numbers[rng.randrange(len(self._numbers))]


Draw = Callable[[Rows, random.Random], Change]


def inserts(rows: Rows, rng: random.Random) -> Change:
    return rows.insert()


def mixed(rows: Rows, rng: random.Random) -> Change:
    """Of four: two updates, an insert, a delete; any row is as likely as another."""
    kind = rng.randrange(4)
    if kind == 0:
        return rows.insert()
    return rows.delete(rng) if kind == 1 else rows.update(rows.any(rng))


def hot(count: int) -> Draw:
    """Updates; the n-th row comes with a weight of 1 / n (Zipf)."""
    weights = list(accumulate(1 / n for n in range(1, count + 1)))

    def draw(rows: Rows, rng: random.Random) -> Change:
        return rows.update(min(count - 1, bisect(weights, rng.random() * weights[-1])))

    return draw


class Shape(NamedTuple):
    """`present` rows are there before; then come `changes`, `transaction` at once. `aim` in
    rows/s."""

    key: str
    name: str
    columns: int
    present: int
    changes: int
    draw: Draw
    aim: float | None = None
    transaction: int = TRANSACTION


HOT_ROWS = 10_000
SHAPES = (
    Shape("insert", "inserts, 6 columns", 6, 0, 400_000, inserts, 120_000),
    Shape("mix", "update 50 insert 25 delete 25", 6, 100_000, 300_000, mixed),
    Shape("hot", f"updates of {HOT_ROWS} rows, Zipf", 6, HOT_ROWS, 300_000, hot(HOT_ROWS)),
    Shape("wide", "inserts, 16 columns", 16, 0, 150_000, inserts),
)


class Load(NamedTuple):
    """Whole transactions: those that fill the table, and those that are measured. At the end the
    table has `rows`, whose versions sum up to `versions`."""

    table: BenchTable
    present: list[list[Change]]
    measured: list[list[Change]]
    rows: int
    versions: int


def load(shape: Shape, table_id: int, share: float) -> Load:
    """The same each time. `share` of the changes."""
    rows, rng = Rows(), random.Random(SEED)
    present = [rows.insert() for _ in range(shape.present)]
    changes = [shape.draw(rows, rng) for _ in range(int(shape.changes * share))]
    return Load(
        BenchTable(table_id, shape.columns),
        list(_cut(present, shape.transaction)),
        list(_cut(changes, shape.transaction)),
        len(rows.versions),
        sum(rows.versions.values()),
    )


def _cut(changes: Sequence[Change], size: int) -> Iterator[list[Change]]:
    for at in range(0, len(changes), size):
        yield list(changes[at : at + size])


def encoded(table: BenchTable, changes: Sequence[Change]) -> Changes:
    """A transaction's rows, as a Pump gets them."""
    return [(change.op, table.encode(*change)) for change in changes]
