"""Tables with everything that decides how they are written: hot keys, keys that change,
several unique keys, text that a collation takes for equal, bytes, no key at all, rows of two
structures, DDL in between."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec

from tests.spark.relay_files import Change, RelayFiles, keyed
from tests.unit.downstreams.shapes import column, ddl, table
from tests.unit.plan.test_interleavings import change
from tests.unit.plan.toy import Toy, Upstream
from tidelog.schema.structure import TableStructure

DB = "d"
ID = column("id", "bigint", nullable=False, id=1)
WIDE = table("wide", ID, column("v", "varchar(40)", id=2), key=("id",), number=20)
WIDER = msgspec.structs.replace(
    WIDE,
    version=2,
    columns=(*WIDE.columns, column("n", "int(11)", default="7", origin_default="3", id=3)),
)
BYTES = table(
    "bytes",
    column("k", "varbinary(8)", nullable=False),
    column("data", "blob"),
    column("n", "int(11)"),
    key=("k",),
    number=31,
)
LATE = 0.2
"""How often a batch's rows still come in the structure from before the DDL."""
LOOSE = table("loose", column("a", "int(11)"), column("b", "varchar(20)"), number=30)


class ToyTable:
    """A toy of the planner's tests as a table of its own."""

    def __init__(self, name: str, toy: Toy, number: int) -> None:
        first, *rest = toy.structure.columns
        columns = (msgspec.structs.replace(first, nullable=False), *rest)
        self.structure = msgspec.structs.replace(
            toy.structure, name=name, id=number, columns=columns
        )
        self._toy = toy
        self._upstream = Upstream(toy)

    def change(self, rng: Random, commit_ts: int) -> Change | None:
        event = change(rng, self._toy, self._upstream, commit_ts)
        if event is None:
            return None
        return DB, self.structure, keyed(self.structure, commit_ts, event.before, event.after)


class Wide:
    """Rows by number, some of them written again and again."""

    def __init__(self) -> None:
        self.structure = WIDE
        self.is_late = False
        self._rows: dict[int, dict[str, Any]] = {}

    def change(self, rng: Random, commit_ts: int) -> Change:
        number = rng.choice((rng.randrange(30_000), rng.randrange(10)))
        before = self._rows.pop(number, None)
        after: dict[str, Any] | None = None
        if before is None or rng.random() < 0.7:
            moved = rng.randrange(30_000) if rng.random() < 0.1 else number
            number = number if moved in self._rows else moved
            after = {"id": number, "v": f"{commit_ts}", "n": rng.randrange(100)}
            self._rows[number] = after
        structure = WIDE if self.is_late else self.structure
        event = keyed(structure, commit_ts, _of(structure, before), _of(structure, after))
        return DB, structure, event


def _of(structure: TableStructure, row: dict[str, Any] | None) -> dict[str, Any] | None:
    return row and {one.name: row[one.name] for one in structure.columns}


class Bytes:
    """Rows whose keys and values are no text."""

    structure = BYTES

    def __init__(self) -> None:
        self._rows: dict[int, dict[str, Any]] = {}

    def change(self, rng: Random, commit_ts: int) -> Change:
        number = rng.randrange(60)
        before = self._rows.pop(number, None)
        after: dict[str, Any] | None = None
        if before is None or rng.random() < 0.7:
            texts = [b64encode(data).decode() for data in (bytes([number, 255]), rng.randbytes(9))]
            after = {"k": texts[0], "data": texts[1], "n": commit_ts % 100}
            self._rows[number] = after
        event = keyed(BYTES, commit_ts, before, after)
        return DB, BYTES, msgspec.structs.replace(event, b64=["k", "data"])


class Loose:
    """Rows that may come several times."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    def change(self, rng: Random, commit_ts: int) -> Change:
        before = after = None
        if self._rows and rng.random() < 0.5:
            before = self._rows.pop(rng.randrange(len(self._rows)))
        if before is None or rng.random() < 0.5:
            after = {"a": rng.randrange(3), "b": rng.choice(("x", "y"))}
            self._rows.append(after)
        return DB, LOOSE, keyed(LOOSE, commit_ts, before, after)


def write(relay: RelayFiles, seed: int, changes: int) -> list[int]:
    """So many changes, with DDLs among them; returns the commit_ts of transactions."""
    rng = Random(seed)
    wide, others = Wide(), [Bytes(), Loose()]
    toys = [
        ToyTable("numbers", Toy(3, False), 40),
        ToyTable("words", Toy(1, True, rare=0.05), 41),
        ToyTable("plain_words", Toy(1, True, rare=0.0), 42),
    ]
    relay.ddl(ddl("create_schema"))
    for structure in (WIDE, BYTES, LOOSE, *(toy.structure for toy in toys)):
        relay.ddl(ddl("create_table", (None, structure)))
    written: list[int] = []
    for part in range(2):
        for batch in _batches(rng, relay, [wide, wide, *others, *toys], changes // 2):
            relay.batch(batch)
            wide.is_late = rng.random() < LATE
            written += sorted({event.commit_ts for _, _, event in batch})
        if part == 0:
            relay.ddl(ddl("add_column", (WIDE, WIDER)))
            wide.structure = WIDER
    return written


def _batches(
    rng: Random, relay: RelayFiles, tables: list[Any], changes: int
) -> Iterator[list[Change]]:
    while changes > 0:
        commit_ts, batch = relay.end + 1, list[Change]()
        for _ in range(rng.randint(1, 400)):
            one = rng.choice(tables).change(rng, commit_ts)
            batch += [one] if one is not None else []
            commit_ts += rng.random() < 0.3
        changes -= len(batch)
        if batch:
            yield batch
