"""A random table, what random changes and DDLs leave in it as a plain list of rows, and how the
stream tells them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import msgspec

from tests.adapters.mysql.value_cases import CASES, Case, examples
from tests.unit.downstreams.shapes import column, ddl, table
from tests.unit.plan.toy import same
from tidelog.changes import DdlMessage, Event
from tidelog.rows.column import JSON_NULL
from tidelog.schema.structure import ColumnStructure, KeyPart, KeyStructure, TableStructure

Row = dict[str, Any]
replace = msgspec.structs.replace
MOST_ROWS = 25


class Drawn(NamedTuple):
    """`equal`: the same for values that the upstream takes for equal."""

    case: Case
    pool: list[Any]
    equal: Callable[[Any], Any] = lambda value: value


def text_drawn(collation: str, equal: Callable[[str], Any]) -> Drawn:
    case = CASES["varchar utf8mb4"]
    case = case._replace(definition=replace(case.definition, collation=collation))
    texts = ["a", "A", "b", "B ", "", " ", "á", "ab", "abc", "ABD", "it's", "中"]
    return Drawn(case, texts, equal)


def document_text(value: Any) -> str:
    return "null" if value == JSON_NULL else str(CASES["json"].expected(value))


DOCUMENTS = [JSON_NULL, {"a": 1}, {"a": 2}, {"b": [None], "a": "x"}, {}, [], "", "a", 0, 1.5, True]
PLAIN = {what: Drawn(case, examples(case.values, 30)) for what, case in CASES.items()}
PLAIN["json"] = Drawn(CASES["json"]._replace(expected=document_text), DOCUMENTS)
KEYED = {
    what: Drawn(drawn.case, drawn.pool[:8], drawn.case.expected)
    for what, drawn in PLAIN.items()
    if drawn.case.key and not drawn.case.definition.charset
} | {
    "int": Drawn(CASES["int"], [-1, 0, 1, 2, 3, 4, 5, 9]),
    "enum": Drawn(CASES["enum"], ["", "a", "it's", "b\\", "1", "`"]),
    "varbinary": Drawn(CASES["varbinary"], ["", "YQ==", "QQ==", "YSA=", "YQA=", "AA==", "/w=="]),
    "padded": text_drawn("utf8mb4_bin", lambda text: text.rstrip(" ")),
    "not padded": text_drawn("utf8mb4_0900_bin", lambda text: text),
    "general": text_drawn("utf8mb4_general_ci", same),
    "0900": text_drawn("utf8mb4_0900_ai_ci", lambda text: (same(text), text.endswith(" "))),
}
FEW = {"int": Drawn(CASES["int"], [1, 2])}
COMPUTED = Drawn(Case(column("v", "bigint(20)"), CASES["bigint"].values), [])
DEFAULTS: dict[str, Any] = {
    "int": 7,
    "varchar utf8mb4": "it's \\ a",
    "decimal(65,30)": "1." + "5" * 30,
    "datetime": "2024-02-29 12:00:00",
}


class Source:
    """Legal for TiDB after each event. Columns of keys are called k…, computed ones g…"""

    def __init__(self, number: int, rng: Random) -> None:
        """Numbers that follow each other go through all kinds of values, in tables without a key
        and with some."""
        self.rng = rng
        self.commit_ts = 10_000 << 18
        self.rows: list[Row] = []
        self.drawn: dict[str, Drawn] = {}
        self._ids = 0
        turn, kind = divmod(number, len(PLAIN))
        columns = [self._column(PLAIN, "c", list(PLAIN)[kind])]
        if turn % 2:
            columns += [self._column(KEYED, "k") for _ in range(rng.randint(1, 3))]
            columns += [self._column(PLAIN, "c") for _ in range(rng.randint(0, 2))]
        else:
            columns = [replace(columns[0], nullable=True), self._column(FEW, "k")]
        rng.shuffle(columns)
        primary: tuple[str, ...] = ()
        if turn % 2 and rng.random() < 0.6:
            keyed = [one.name for one in columns if one.name[0] == "k"]
            primary = tuple(rng.sample(keyed, rng.randint(1, min(2, len(keyed)))))
            columns = [replace(c, nullable=c.nullable and c.name not in primary) for c in columns]
        bases = [one.name for one in columns if one.name[0] == "k" and one.base == "int"]
        if bases and rng.random() < 0.3:
            more = self._column({"": COMPUTED}, "g")
            stored, expression = rng.random() < 0.5, f"`{bases[0]}` + 1"
            more = replace(more, generated=expression, generated_stored=stored, nullable=True)
            columns.append(more)
        self.structure = table("t", *columns, key=primary, number=100)
        if turn % 2 and rng.random() < 0.6:
            self._index()
        self.structure = replace(self.structure, key_columns=_event_key(self.structure))

    def _column(self, kinds: dict[str, Drawn], prefix: str, what: str = "") -> ColumnStructure:
        self._ids += 1
        called = f"{prefix}{self._ids}"
        found = kinds[what or self.rng.choice(list(kinds))]
        pool = self.rng.sample(found.pool, 3) if prefix == "c" else found.pool
        self.drawn[called] = found._replace(pool=pool)
        one, nullable = found.case.definition, self.rng.random() < 0.7
        scale = 30 if one.type == "decimal(65,30)" else one.scale
        return replace(one, name=called, id=self._ids, nullable=nullable, scale=scale)

    def _legal(self, structure: TableStructure, rows: list[Row]) -> bool:
        for key in structure.keys:
            values = [tuple(self._equal(part, row) for part in key.parts) for row in rows]
            known = [one for one in values if None not in one]
            if len(known) != len(set(known)):
                return False
        return True

    def _equal(self, part: KeyPart, row: Row) -> Any:
        value = row[part.column]
        value = value[: part.length] if value is not None and part.length else value
        return None if value is None else self.drawn[part.column].equal(value)

    def _draw(self, one: ColumnStructure) -> Any:
        if one.nullable and self.rng.random() < 0.3:
            return None
        return self.rng.choice(self.drawn[one.name].pool)

    def transactions(self, count: int) -> list[Event]:
        found: list[Event] = []
        for _ in range(count):
            self.commit_ts += self.rng.choice((1, 1, 1 << 18))
            for _ in range(self.rng.randint(1, 5)):
                found += self._change()
        return found

    def _change(self) -> list[Event]:
        rng, what = self.rng, self.rng.random()
        written = [one for one in self.structure.columns if not one.generated]
        if not self.rows or what < (0.4 if len(self.rows) < MOST_ROWS else 0):
            return self._try(None, {one.name: self._draw(one) for one in written})
        before = rng.choice(self.rows)
        if what < 0.6:
            return self._try(before, None)
        if what < 0.7:
            return self._swap(before, rng.choice(self.rows))
        some = rng.sample(written, rng.randint(1, len(written)))
        return self._try(before, before | {one.name: self._draw(one) for one in some})

    def _swap(self, one: Row, other: Row) -> list[Event]:
        """What they have in columns of unique keys."""
        names = [part.column for key in self.structure.keys for part in key.parts]
        if one is other or not names:
            return []
        moved = other | {called: one[called] for called in names}
        back = one | {called: other[called] for called in names}
        return [*self._try(one, None), *self._try(other, moved), *self._try(None, back)]

    def _try(self, before: Row | None, after: Row | None) -> list[Event]:
        at = next((i for i, row in enumerate(self.rows) if row is before), len(self.rows))
        for one in self.structure.columns:
            if after is not None and one.generated:
                base = after[one.generated.split("`")[1]]
                after = after | {one.name: None if base is None else base + 1}
        rows = [*self.rows[:at], *([] if after is None else [after]), *self.rows[at + 1 :]]
        if not self._legal(self.structure, rows):
            return []
        self.rows = rows
        return [self._event(before, after)]

    def _event(self, before: Row | None, after: Row | None) -> Event:
        """Only a delete has what is computed and not stored. Bytes are marked, JSON's null, and a
        text or document whose other image is."""
        columns = self.structure.columns
        virtual = {one.name for one in columns if one.generated and not one.generated_stored}
        images = [row for row in (before, after) if row is not None]
        marked = {
            one.name: one.base == "json"
            for one in columns
            if (one.base == "json" or (one.charset and not one.elems))
            and (self.rng.random() < 0.1 or any(row[one.name] == JSON_NULL for row in images))
        }

        def told(row: Row | None) -> Row | None:
            if row is None:
                return None
            row = {n: v for n, v in row.items() if after is None or n not in virtual}
            for called, is_json in marked.items():
                value = row[called]
                if value is not None and value != JSON_NULL:
                    raw = msgspec.json.encode(value) if is_json else value.encode()
                    row[called] = b64encode(raw).decode()
            return row

        op = "c" if before is None else "d" if after is None else "u"
        marks = [*marked, *(one.name for one in columns if one.binary)]
        return Event(op, self.commit_ts, None, told(before), told(after), marks)

    def ddl(self) -> DdlMessage | None:
        """Runs one here; None if what was drawn can't be."""
        before = self.structure
        kinds = (self._truncate, self._add, self._drop, self._index, self._unindex, self._nulls)
        kind = self.rng.choice(kinds)()
        if self.structure == before:
            return None
        self.commit_ts += 1
        after = replace(self.structure, version=before.version + 1)
        self.structure = replace(after, key_columns=_event_key(after))
        return ddl(kind, (before, self.structure), commit_ts=self.commit_ts)

    def _truncate(self) -> str:
        self.rows = []
        self.structure = replace(self.structure, id=self.structure.id + 1)
        return "truncate_table"

    def _add(self) -> str:
        columns = list(self.structure.columns)
        what, value = self.rng.choice(list(PLAIN)), None
        more = replace(self._column(PLAIN, "c", what), nullable=True)
        if what in DEFAULTS and self.rng.random() < 0.7:
            value, text = DEFAULTS[what], str(DEFAULTS[what])
            nullable = self.rng.random() < 0.5
            more = replace(more, default=text, origin_default=text, nullable=nullable)
        self.rows = [row | {more.name: value} for row in self.rows]
        columns.insert(self.rng.randint(0, len(columns)), more)
        self.structure = replace(self.structure, columns=tuple(columns))
        return "add_column"

    def _drop(self) -> str:
        columns = self.structure.columns
        free = [one for one in columns if one.name[0] == "c"]
        if free:
            gone = self.rng.choice(free)
            self.rows = [{n: v for n, v in row.items() if n != gone.name} for row in self.rows]
            columns = tuple(one for one in columns if one is not gone)
            self.structure = replace(self.structure, columns=columns)
        return "drop_column"

    def _index(self) -> str:
        """A unique one, if the rows allow it."""
        rng, now = self.rng, self.structure
        free = [c for c in now.columns if c.name[0] in "kg"]
        chosen = rng.sample(free, rng.randint(1, min(2, len(free))))
        parts = tuple(
            KeyPart(c.name, 2 if c.base == "varchar" and rng.random() < 0.3 else 0) for c in chosen
        )
        self._ids += 1
        found = replace(now, keys=(*now.keys, KeyStructure(f"u{self._ids}", parts, True)))
        self.structure = found if self._legal(found, self.rows) else now
        return "add_index"

    def _unindex(self) -> str:
        more = [key for key in self.structure.keys if not key.primary]
        gone = self.rng.choice(more) if more else None
        keys = tuple(key for key in self.structure.keys if key is not gone)
        self.structure = replace(self.structure, keys=keys)
        return "drop_index"

    def _nulls(self) -> str:
        """A column takes NULL, or takes none any more: the event's key may be another one then."""
        columns = self.structure.columns
        primary = {p.column for key in self.structure.keys if key.primary for p in key.parts}
        one = self.rng.choice(columns)
        filled = all(row[one.name] is not None for row in self.rows)
        if one.name not in primary and not one.generated and (filled or not one.nullable):
            other = replace(one, nullable=not one.nullable)
            columns = tuple(other if c is one else c for c in columns)
            self.structure = replace(self.structure, columns=columns)
        return "modify_column"


def _event_key(structure: TableStructure) -> tuple[str, ...]:
    """The primary key, else the first that takes no NULL and is in every image."""
    columns = {one.name: one for one in structure.columns}
    for key in sorted(structure.keys, key=lambda key: not key.primary):
        parts = [columns[part.column] for part in key.parts]
        if all(not c.nullable and (not c.generated or c.generated_stored) for c in parts):
            return tuple(c.name for c in parts)
    return ()
