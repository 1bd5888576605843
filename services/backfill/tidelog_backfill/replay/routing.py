"""Which part of a step writes which rows. Pure.

A part is a partition of the job, and a lane of the downstream: it writes in order, and between
parts there is no order at all. Rows of a table that is *spread* go by their key: why the net effect
of a whole segment may then be written in any order stands in `tidelog.plan.window`, of which a
segment is one. A table for which that does not hold has a part for itself, where its changes are
planned in upstream order, as on a single lane.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from zlib import crc32

import msgspec

from tidelog.downstream import TableRule
from tidelog.plan.causality import lane_of
from tidelog.plan.keys import TableKeys
from tidelog.schema.structure import TableStructure

_MIX, _64_BITS = 0x9E3779B97F4A7C15, (1 << 64) - 1
"""2^64 divided by the golden ratio."""
Place = tuple[str, str]
"""Database and table."""
BLOCK_BYTES = 1 << 20
BLOCK_BITS = 9
"""Integer keys that are alike but for so many bits, or fewer where rows are large, are one part's:
a database writes neighbours faster, as they share pages."""


class Form(msgspec.Struct, frozen=True):
    """A table at one version, and how it may be written; `table`: its number in the Routing."""

    table: int
    db: str
    structure: TableStructure
    rule: TableRule

    @property
    def place(self) -> Place:
        return self.db, self.structure.name


class Routing(msgspec.Struct, frozen=True):
    """`spread`: by table, whether its rows go by their key. What a part has of such a table is cut
    into `buckets`, each small enough to be held. Travels to executors."""

    parts: int
    forms: list[Form]
    spread: list[bool]
    buckets: int = 1
    block_bits: int = BLOCK_BITS

    def first_form(self, table: int) -> Form:
        return next(form for form in self.forms if form.table == table)

    def home(self, table: int) -> int:
        """Where all rows of a table go that is not spread."""
        return _place_part(self.first_form(table).place, self.parts)

    def slot(self, key: Hashable) -> int:
        """Of a row's normalised key. Integers are mixed: many have the same low bits, as ids made
        of a time and a worker's number do."""
        slots = self.parts * self.buckets
        if isinstance(key, int):
            return (((key >> self.block_bits) * _MIX & _64_BITS) >> 32) % slots
        return lane_of(key, slots)

    def place(self, table: int, slot: int) -> tuple[int, int]:
        """Part and bucket: small tables begin in different parts."""
        return (slot + self.home(table)) % self.parts, slot // self.parts


def routing(
    tables: Iterable[tuple[str, TableStructure, TableRule]],
    parts: int,
    pinned: Collection[Place] = (),
    *,
    buckets: int = 1,
    row_bytes: int = 1,
) -> Routing:
    """Of all tables at all versions that rows may come in. `pinned`: tables with a value of which
    nobody can tell what it equals; `row_bytes`: of a row, on average."""
    numbers: dict[Place, int] = {}
    forms: list[Form] = []
    for db, structure, rule in tables:
        number = numbers.setdefault((db, structure.name), len(numbers))
        forms.append(Form(number, db, structure, rule))
    spread = [
        place not in pinned and _can_spread([form for form in forms if form.table == number])
        for place, number in numbers.items()
    ]
    bits = min(BLOCK_BITS, (BLOCK_BYTES // max(1, row_bytes)).bit_length() - 1)
    return Routing(parts, forms, spread, buckets, max(0, bits))


def _can_spread(forms: list[Form]) -> bool:
    """The keys of its rows can be told, are the same at all versions, and nothing notices a row
    that is deleted and put again."""
    if not all(form.rule.replaceable and not form.rule.ordered for form in forms):
        return False
    keys = [TableKeys(form.structure, form.rule) for form in forms]
    if any(one.unsure for one in keys):
        return False
    first = forms[0].structure.key_columns
    same_columns = all(form.structure.key_columns == first for form in forms)
    return same_columns and all(one.signature == keys[0].signature for one in keys)


def _place_part(place: Place, parts: int) -> int:
    return crc32(repr(place).encode()) % parts
