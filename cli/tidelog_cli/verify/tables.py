"""Which tables are compared with which, by which columns and key. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import msgspec

from tidelog.errors import BadInput
from tidelog_cli.verify.kinds import PRINTED_DIFFERENTLY, Kind, common


class Column(msgspec.Struct, frozen=True):
    """`collation`: of a text that keys may be ordered by; empty where the order is that of the
    values. `ordered`: whether a key of it can be cut into ranges at all."""

    name: str
    kind: Kind
    collation: str = ""
    ordered: bool = True


class Table(msgspec.Struct, frozen=True):
    """`keys`: NOT NULL unique keys, the primary key first; None if the place doesn't tell. `rows`:
    about how many."""

    db: str
    name: str
    columns: tuple[Column, ...]
    keys: tuple[tuple[str, ...], ...] | None = ()
    rows: int = 0
    ranges: bool = True
    """Whether the place can read a range of keys without reading all."""

    @property
    def shown(self) -> str:
        return f"{self.db}.{self.name}"


class Part(msgspec.Struct, frozen=True):
    """What is read of one table on one side. `key` are names of `columns`; empty: rows without a
    key are compared as a multiset."""

    db: str
    table: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    @property
    def key_columns(self) -> list[Column]:
        by_name = {column.name: column for column in self.columns}
        return [by_name[name] for name in self.key]

    @property
    def bucketed(self) -> list[int]:
        """The columns whose values choose a row's bucket: every server prints them alike."""
        chosen = self.key or tuple(column.name for column in self.columns)
        return [
            at
            for at, column in enumerate(self.columns)
            if column.name in chosen and column.kind not in PRINTED_DIFFERENTLY
        ]


class Plan(msgspec.Struct, frozen=True):
    """One comparison. `problem`: why it is none; then it has no parts."""

    source: str
    downstream: str
    parts: tuple[Part, Part] | None = None
    rows: int = 0
    ranged: bool = False
    problem: str = ""
    notes: tuple[str, ...] = ()


class Choice:
    """The tables an operator names, and how the feed's routes rename them."""

    def __init__(self, patterns: Sequence[str], maps: Sequence[str]) -> None:
        """`patterns`: DB.TABLE with wildcards, none = all. `maps`: FROM=TO, where a `*` in TO is
        the name itself. Raises BadInput."""
        self._patterns = [_pair(text, "--table") for text in patterns]
        self._maps = []
        for text in maps:
            old, equals, new = text.partition("=")
            if not equals:
                raise BadInput(f"--map {text!r} has no =", hint="--map 'shop.*=copy.*'")
            self._maps.append((_pair(old, "--map"), _pair(new, "--map")))

    @property
    def everything(self) -> bool:
        return not self._patterns

    def takes(self, db: str, table: str) -> bool:
        return self.everything or any(_matches(p, db, table) for p in self._patterns)

    def misses(self, table: Table, databases: set[str]) -> bool:
        """Should the source have this one of the downstream? Of those whose database the source
        has, or is named; by the source's names, so not where `maps` rename."""
        if self.everything:
            return table.db.lower() in databases
        return not self._maps and any(
            _matches(pattern, table.db, table.name)
            and (table.db.lower() in databases or not set(pattern[0]) & set("*?["))
            for pattern in self._patterns
        )

    def unmet(self, tables: Sequence[Table]) -> list[str]:
        """What was named, and is none of these."""
        return [
            ".".join(pattern)
            for pattern in self._patterns
            if not any(_matches(pattern, table.db, table.name) for table in tables)
        ]

    def renamed(self, db: str, table: str) -> tuple[str, str]:
        for old, (new_db, new_table) in self._maps:
            if _matches(old, db, table):
                return new_db.replace("*", db), new_table.replace("*", table)
        return db, table


def _pair(text: str, option: str) -> tuple[str, str]:
    db, dot, table = text.partition(".")
    if not (db and dot and table):
        raise BadInput(f"{option} {text!r} is not DB.TABLE", hint=f"{option} 'shop.*'")
    return db, table


def _matches(pattern: tuple[str, str], db: str, table: str) -> bool:
    return fnmatchcase(db.lower(), pattern[0].lower()) and fnmatchcase(
        table.lower(), pattern[1].lower()
    )


def plans(source: Sequence[Table], downstream: Sequence[Table], choice: Choice) -> list[Plan]:
    """Each chosen table of the source, then what only the downstream has, then what was named and
    is nowhere. Raises BadInput if two go into one, or none is chosen."""
    there = {(t.db.lower(), t.name.lower()): t for t in downstream}
    met: dict[tuple[str, str], str] = {}
    found: list[Plan] = []
    databases: set[str] = set()
    for table in source:
        if not choice.takes(table.db, table.name):
            continue
        db, name = choice.renamed(table.db, table.name)
        place = (db.lower(), name.lower())
        if place in met:
            raise BadInput(
                f"{met[place]} and {table.shown} both go into {db}.{name}",
                hint="tables that are merged downstream can't be compared one by one",
            )
        met[place] = table.shown
        databases.add(place[0])
        found.append(_plan(table, f"{db}.{name}", there.get(place)))
    if not met:
        raise BadInput("the source has no such table", hint="look at --table and at the URL")
    below = [there[place] for place in sorted(there.keys() - met.keys())]
    missed = [table for table in below if choice.misses(table, databases)]
    found += [Plan("", t.shown, problem="only downstream", rows=t.rows) for t in missed]
    unmet = choice.unmet([*source, *missed])
    return [*found, *(Plan(name, name, problem="no such table") for name in unmet)]


def _plan(source: Table, called: str, downstream: Table | None) -> Plan:
    if downstream is None:
        return Plan(source.shown, called, problem="missing downstream", rows=source.rows)
    there = {column.name.lower(): column for column in downstream.columns}
    pairs: list[tuple[Column, Column]] = []
    wrong: list[str] = []
    for column in source.columns:
        other = there.pop(column.name.lower(), None)
        kind = common(column.kind, other.kind) if other is not None else None
        if other is None:
            wrong.append(f"column {column.name} is missing downstream")
        elif kind is None:
            wrong.append(f"column {column.name} is {column.kind.value} and {other.kind.value}")
        else:
            replaced = (msgspec.structs.replace(one, kind=kind) for one in (column, other))
            first, second = replaced
            pairs.append((first, second))
    notes = tuple(f"column {c.name} is only downstream" for c in there.values())
    if wrong:
        return Plan(source.shown, called, problem="; ".join(wrong), notes=notes)
    key = _key(source, downstream, [one.name for one, _ in pairs])
    return Plan(
        source.shown,
        called,
        (_part(source, pairs, 0, key), _part(downstream, pairs, 1, key)),
        max(source.rows, downstream.rows),
        source.ranges and downstream.ranges and _same_order(pairs, key),
        notes=notes,
    )


def _part(
    table: Table, pairs: Sequence[tuple[Column, Column]], side: int, key: Sequence[str]
) -> Part:
    at = [column.name.lower() for column, _ in pairs]
    columns = tuple(pair[side] for pair in pairs)
    return Part(table.db, table.name, columns, tuple(columns[at.index(k)].name for k in key))


def _key(source: Table, downstream: Table, columns: Sequence[str]) -> tuple[str, ...]:
    """The first key that both have, in lower case; of one that doesn't tell, the other's."""
    known = {name.lower() for name in columns}
    mine, theirs = (
        None if t.keys is None else [tuple(name.lower() for name in key) for key in t.keys]
        for t in (source, downstream)
    )
    wanted = mine if mine is not None else theirs or []
    for key in wanted:
        if known.issuperset(key) and (theirs is None or key in theirs):
            return key
    return ()


def _same_order(pairs: Sequence[tuple[Column, Column]], key: Sequence[str]) -> bool:
    """Whether a range of this key is the same set of rows on both sides."""
    chosen = [pair for pair in pairs if pair[0].name.lower() in key]
    return bool(key) and all(
        one.ordered
        and other.ordered
        and one.kind not in PRINTED_DIFFERENTLY
        and (
            one.collation == other.collation
            or (_by_code_point(one.collation) and _by_code_point(other.collation))
        )
        for one, other in chosen
    )


def _by_code_point(collation: str) -> bool:
    return collation.startswith("utf8") and collation.endswith("_bin")
