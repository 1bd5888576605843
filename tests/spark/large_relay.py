"""A relay log of any size, and what it comes to, without a database to ask.

A row's values follow from its number and the commit_ts that wrote it, so of a row only that is
kept, and a checksum over all of them says what a database has to hold.
"""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import Any
from zlib import crc32

import msgspec

from tests.servers import MariaDb
from tests.spark import applied
from tests.spark.relay_files import Change, RelayFiles, keyed
from tests.unit.downstreams.shapes import column, ddl, table
from tidelog.schema.structure import TableStructure

DB = "d"
ROWS = 20
"""Of a transaction."""
TRANSACTIONS = 100
"""Of a batch."""
HOT = 100
FILLER = "".join(Random(1).choices("abcdefghijklmnopqrstuvwxyz 0123456789äß", k=1000))
TEXT = 100
"""Characters of a row's text."""
FIRST = table(
    "t",
    column("id", "bigint", nullable=False),
    column("v", "varchar(200)"),
    column("n", "int(11)"),
    key=("id",),
    number=10,
)
Sums = tuple[int, int]
"""How many rows, and the sum of their checksums."""


class LargeRelay:
    """Rows come, change, get other keys and go; half of the changes are of a few hot ones. After
    every so many a DDL adds a column."""

    def __init__(self, relay: RelayFiles, seed: int) -> None:
        self._relay = relay
        self._rng = Random(seed)
        self._written: dict[int, int] = {}
        """The commit_ts that wrote it, by row."""
        self._numbers: list[int] = []
        self._next = 0
        self._ddls: list[int] = []
        self.structure = FIRST
        self.changes = 0
        relay.ddl(ddl("create_schema"))
        relay.ddl(ddl("create_table", (None, FIRST)))

    @property
    def ddls(self) -> int:
        """That added columns."""
        return len(self._ddls)

    def write(self, changes: int) -> None:
        until = self.changes + changes
        while self.changes < until:
            batch: list[Change] = []
            for commit_ts in range(self._relay.end + 1, self._relay.end + 1 + TRANSACTIONS):
                batch += [self._change(commit_ts) for _ in range(ROWS)]
            self.changes += len(batch)
            self._relay.batch(batch)

    def add_column(self) -> None:
        """Rows that are there have its number in it."""
        number, old = len(self._ddls) + 1, self.structure
        added = column(
            f"c{number}", "int(11)", default=f"{number}", origin_default=f"{number}", id=3 + number
        )
        self.structure = msgspec.structs.replace(
            old, version=1 + number, columns=(*old.columns, added)
        )
        self._relay.ddl(ddl("add_column", (old, self.structure)))
        self._ddls.append(self._relay.end)

    def expected(self) -> Sums:
        texts = ("|".join(map(str, self._row(*one).values())) for one in self._written.items())
        sums = [crc32(text.encode()) for text in texts]
        return len(sums), sum(sums)

    def _row(self, number: int, commit_ts: int) -> dict[str, Any]:
        at = (number + commit_ts) % (len(FILLER) - TEXT)
        row = {"id": number, "v": FILLER[at : at + TEXT], "n": commit_ts % 1000}
        known = bisect_left(self._ddls, commit_ts)
        for column_number in range(1, len(self._ddls) + 1):
            is_older = column_number > known
            row[f"c{column_number}"] = column_number if is_older else commit_ts % 97
        return row

    def _change(self, commit_ts: int) -> Change:
        kind = self._rng.random()
        if kind < 0.3 or len(self._numbers) <= HOT:
            number = self._new(commit_ts)
            return self._event(commit_ts, None, self._row(number, commit_ts))
        if kind < 0.8:
            number = self._rng.randrange(HOT)
            before = self._row(number, self._written[number])
            self._written[number] = commit_ts
            return self._event(commit_ts, before, self._row(number, commit_ts))
        before = self._gone()
        after = self._row(self._new(commit_ts), commit_ts) if kind < 0.9 else None
        return self._event(commit_ts, before, after)

    def _new(self, commit_ts: int) -> int:
        number, self._next = self._next, self._next + 1
        self._written[number] = commit_ts
        self._numbers.append(number)
        return number

    def _gone(self) -> dict[str, Any]:
        """Any but a hot one."""
        at = self._rng.randrange(HOT, len(self._numbers))
        number, self._numbers[at] = self._numbers[at], self._numbers[-1]
        self._numbers.pop()
        return self._row(number, self._written.pop(number))

    def _event(
        self, commit_ts: int, before: dict[str, Any] | None, after: dict[str, Any] | None
    ) -> Change:
        return DB, self.structure, keyed(self.structure, commit_ts, before, after)


def held(server: MariaDb, structure: TableStructure) -> Sums:
    """Of a database's table."""
    names = ", ".join(one.name for one in structure.columns)
    text = f"SELECT COUNT(*), SUM(CRC32(CONCAT_WS('|', {names}))) FROM {DB}.{structure.name}"
    ((rows, sums),) = applied.sql(server, text)
    return int(rows), int(sums)
