"""Which tables a subscriber wants: `shop.item`, `shop.*`, `*.item`, `` `a.b`.`c d` ``. Pure.

The server sends only what matches, with markers, watermarks and all DDLs: by the first two a gap
is seen whatever the tables, and a DDL's subject names one of its tables only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidelog import subjects
from tidelog.changes import DdlMessage
from tidelog.errors import BadInput

ANY = "*"
_NAME = r"`((?:[^`]|``)+)`|([^`.*]+)|(\*)"
_PATTERN = re.compile(rf"(?:{_NAME})\.(?:{_NAME})")

Pair = tuple[str, str]
"""Database and table as subject tokens; ANY matches each (a name's own `*` is escaped)."""


class Tables:
    """None = all. Raises BadInput for what is no `db.table`."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        if isinstance(patterns, str):
            raise BadInput("tables is one text", hint=f"tables=[{patterns!r}]")
        self._wanted = {_parse(pattern) for pattern in patterns} or {(ANY, ANY)}

    def take(self, label: str) -> bool:
        """Whether a table is wanted, by its name in subjects and markers (`db.table`, escaped)."""
        db, _, table = label.partition(".")
        wanted = self._wanted
        return (
            (ANY, ANY) in wanted
            or (db, table) in wanted
            or (db, ANY) in wanted
            or (ANY, table) in wanted
        )

    def touched_by(self, ddl: DdlMessage) -> bool:
        """Whether a DDL changes a wanted table, before or after it; one of a whole database
        concerns those who want any table of it."""
        if not ddl.tables:
            db = subjects.escape(ddl.db)
            return any(wanted in (ANY, db) for wanted, _ in self._wanted)
        return any(
            self.take(f"{subjects.escape(db)}.{subjects.escape(side.name)}")
            for one in ddl.tables
            for db, side in ((one.db_before, one.before), (one.db_after, one.after))
            if side is not None
        )

    def subjects(self, feed: str) -> tuple[str, ...]:
        """What to ask the server for; empty = everything."""
        pairs = _disjoint(sorted(self._wanted))
        if pairs == [(ANY, ANY)]:
            return ()
        return (
            subjects.changes_txn(feed),
            subjects.changes_watermark(feed),
            f"changes.{feed}.ddl.>",
            *(f"changes.{feed}.row.{db}.{table}" for db, table in pairs),
        )


def _parse(pattern: str) -> Pair:
    found = _PATTERN.fullmatch(pattern)
    if found is None:
        raise BadInput(
            f"{pattern!r} is no table",
            hint="db.table, db.* or *.table; a name with . * or ` in it goes in backquotes",
        )
    db, table = found.groups()[:3], found.groups()[3:]
    return _token(*db), _token(*table)


def _token(quoted: str | None, plain: str | None, star: str | None) -> str:
    if star:
        return ANY
    return subjects.escape(quoted.replace("``", "`") if quoted else plain or "")


def _disjoint(pairs: list[Pair]) -> list[Pair]:
    """The server takes no filters that overlap: those that do become one that covers both."""
    out: list[Pair] = []
    for pair in pairs:
        while (met := next((one for one in out if _overlap(one, pair)), None)) is not None:
            out.remove(met)
            pair = _both(met[0], pair[0]), _both(met[1], pair[1])
        out.append(pair)
    return out


def _overlap(one: Pair, other: Pair) -> bool:
    return all(a == b or ANY in (a, b) for a, b in zip(one, other, strict=True))


def _both(one: str, other: str) -> str:
    return one if one == other else ANY
