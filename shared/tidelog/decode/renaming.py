"""The tables that a DDL's text names, and the same text with other names for them. Pure.

What isn't a name keeps its bytes. The grammar is that of TiDB's DDLs; a view's SELECT is parsed by
sqlglot, which knows where in the text each table and column stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from tidelog.decode.sql_tokens import NotTokens, Token, quoted, replaced, tokens, words
from tidelog.errors import BadInput

Target = Callable[[str, str], tuple[str, str]]


class NotUnderstood(BadInput):
    """The tables that a DDL names can't be told for sure."""

    default_hint = "`ddl-policy` can skip its kind"


class Reference(msgspec.Struct, frozen=True):
    """A table, or with `name` "" a database, at [start, end) of a text; `db` is "" where it is
    unqualified. `alias`: the text instead keeps the old name as an alias."""

    db: str
    name: str
    start: int
    end: int
    alias: bool = False


def renamed(query: str, session_db: str, target: Target) -> str:
    """`query` with every table (db, name) called `target(db, name)`, and each database
    `target(db, "")[0]`. Unqualified names are in `session_db`, and stay unqualified if the target
    is. Raises NotUnderstood."""
    changes: list[tuple[int, int, str]] = []
    for one in references(query):
        before = one.db or session_db, one.name
        after = target(*before)
        if after != before:
            changes.append((one.start, one.end, _text(one, after, session_db)))
    return replaced(query, changes)


def _text(one: Reference, after: tuple[str, str], session_db: str) -> str:
    db, name = after
    if not one.name:
        return quoted(db)
    alias = f" AS {quoted(one.name)}" if one.alias else ""
    if one.db or db != session_db:
        return f"{quoted(db)}.{quoted(name)}{alias}"
    return quoted(name) + alias


def references(query: str) -> list[Reference]:
    """Every table and database that a DDL names, in the order of the text. Raises NotUnderstood."""
    try:
        found = tokens(query)
    except NotTokens as error:
        raise NotUnderstood(f"a DDL without an end: {query[:80]!r}") from error
    while found and found[-1].word == ";":
        found = found[:-1]
    names = _Names(found)
    if ";" in names.words or not names.statement():
        raise NotUnderstood(f"no DDL of a known form: {query[:80]!r}")
    if names.view_at:
        names.found.extend(_of_select(query, names.view_at))
    return sorted(names.found, key=lambda one: one.start)


_OPTIONAL = frozenset(("IF", "NOT", "EXISTS", "TABLE", "TABLES"))
_DATABASE = frozenset(("DATABASE", "SCHEMA"))


class _Names:
    """Goes over the tokens of one statement."""

    def __init__(self, found: list[Token]) -> None:
        self.tokens = found
        self.words = words(found)
        self.found: list[Reference] = []
        self.view_at = 0
        """Where a view's SELECT begins."""

    def statement(self) -> bool:
        """Whether it is understood."""
        match self.words:
            case ["CREATE" | "ALTER" | "DROP" | "FLASHBACK", "DATABASE" | "SCHEMA", *_]:
                return self._database()
            case ["RENAME", "TABLE" | "TABLES", *_]:
                return self._renames()
            case ["DROP", "INDEX", *_] | ["CREATE", *_] if "INDEX" in self.words[1:4]:
                return "ON" in self.words and self._one(self.words.index("ON") + 1) > 0
            case ["DROP", *_] if {"TABLE", "TABLES", "VIEW", "SEQUENCE"} & set(self.words[1:4]):
                return self._listed(self._behind("TABLE", "TABLES", "VIEW", "SEQUENCE"))
            case ["TRUNCATE", *_]:
                return self._one(1) > 0
            case ["RECOVER" | "FLASHBACK", "TABLE", *_]:
                return self._recovered()
            case ["ALTER", *_] if "TABLE" in self.words[1:3]:
                return self._altered(self._behind("TABLE"))
            case ["CREATE" | "ALTER", "SEQUENCE", *_]:
                return self._one(2) > 0
            case ["CREATE", *_] if "TABLE" in self.words[1:4]:
                return self._created(self._behind("TABLE"))
            case ["CREATE", *_] if "VIEW" in self.words:
                return self._view()
            case _:
                return False

    def _behind(self, *known: str) -> int:
        return 1 + min(self.words.index(one) for one in known if one in self.words)

    def _at(self, at: int) -> str:
        return self.words[at] if at < len(self.words) else ""

    def _one(self, at: int, *, database: bool = False) -> int:
        """`[IF [NOT] EXISTS] [db.]name` from here on. Returns where it ends, 0 if there is none."""
        while self._at(at) in _OPTIONAL:
            at += 1
        if at >= len(self.tokens) or self.words[at] in ("(", ")", ",", ".", "="):
            return 0
        first = self.tokens[at]
        if database:
            self.found.append(Reference(first.text, "", first.start, first.end))
        elif self._at(at + 1) == "." and at + 2 < len(self.tokens):
            last = self.tokens[at + 2]
            self.found.append(Reference(first.text, last.text, first.start, last.end))
            return at + 3
        else:
            self.found.append(Reference("", first.text, first.start, first.end))
        return at + 1

    def _listed(self, at: int) -> bool:
        at = self._one(at)
        while at and self._at(at) == ",":
            at = self._one(at + 1)
        return at > 0

    def _database(self) -> bool:
        """ALTER DATABASE may leave out the name: then nothing is named."""
        options = ("CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "PLACEMENT", "SET")
        if self.words[0] == "ALTER" and self._at(2) in options:
            return True
        at = self._one(2, database=True)
        if at and self.words[0] == "FLASHBACK" and self._at(at) == "TO":
            at = self._one(at + 1, database=True)
        return at > 0

    def _renames(self) -> bool:
        at = 1
        while True:
            at = self._one(at + 1)
            if not at or self._at(at) != "TO":
                return False
            at = self._one(at + 1)
            if not at or self._at(at) != ",":
                return at == len(self.tokens)

    def _recovered(self) -> bool:
        if self.words[2:4] == ["BY", "JOB"]:
            return True
        at = self._one(2)
        if at and self._at(at) == "TO" and self._at(at + 1) != "TIMESTAMP":
            at = self._one(at + 1)
        return at > 0

    def _created(self, at: int) -> bool:
        at = self._one(at)
        if not at or "SELECT" in self.words:
            return False
        if self._at(at) == "LIKE" or [self._at(at), self._at(at + 1)] == ["(", "LIKE"]:
            return self._one(at + (1 if self._at(at) == "LIKE" else 2)) > 0
        return self._inner(at)

    def _inner(self, at: int) -> bool:
        """Tables that a definition names: of foreign keys, and sequences of defaults."""
        for here in range(at, len(self.tokens)):
            match self.words[here : here + 3]:
                case ["REFERENCES", *_] if not self._one(here + 1):
                    return False
                case ["NEXT", "VALUE", "FOR"] if not self._one(here + 3):
                    return False
                case ["NEXTVAL" | "LASTVAL", "(", *_] if not self._one(here + 2):
                    return False
                case _:
                    continue
        return True

    def _altered(self, at: int) -> bool:
        at = self._one(at)
        if not at:
            return False
        for here in range(at, len(self.tokens)):
            begins = here == at or (self._at(here - 1), self.tokens[here].depth) == (",", 0)
            match self.words[here : here + 2]:
                case ["RENAME", "INDEX" | "KEY" | "COLUMN"] if begins:
                    continue
                case ["RENAME", behind] if begins:
                    step = 2 if behind in ("TO", "AS", "=") else 1
                    if not self._one(here + step):
                        return False
                case ["WITH", "TABLE"] if not self._one(here + 2):
                    return False
                case _:
                    continue
        return self._inner(at)

    def _view(self) -> bool:
        name_at = self.words.index("VIEW") + 1
        end = self._one(name_at)
        named = [at for at, word in enumerate(self.words) if word == "AS" and at >= end > 0]
        if named:
            self.view_at = self.tokens[named[0]].end
        return bool(named)


def _of_select(query: str, at: int) -> Iterator[Reference]:
    """The tables of a view's SELECT, and columns named with their database."""
    try:
        select = sqlglot.parse_one(query[at:], dialect="mysql")
    except (SqlglotError, RecursionError) as error:  # one that is nested deeply
        raise NotUnderstood(f"a view's SELECT: {query[at:][:80]!r}") from error
    if not isinstance(select, exp.Query):
        raise NotUnderstood(f"a view's SELECT: {query[at:][:80]!r}")
    inside = {cte.alias.lower() for cte in select.find_all(exp.CTE)}
    for table in select.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or table.args.get("catalog"):
            raise NotUnderstood(f"a table of a view: {table.sql()!r}")
        if table.db or table.name.lower() not in inside:
            start, end = _span(query, at, table.args.get("db") or table.this, table.this)
            yield Reference(table.db, table.name, start, end, alias=not table.alias)
    for column in select.find_all(exp.Column):
        if column.args.get("db"):
            raise NotUnderstood(f"a view's column with its database: {column.sql()!r}")


def _span(query: str, at: int, first: exp.Expression, last: exp.Expression) -> tuple[int, int]:
    start, end = at + first.meta["start"], at + last.meta["end"] + 1
    return start, end
