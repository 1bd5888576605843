"""Versions of every table by id: the tracker's state, and the steps DDL handlers are made of."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from tidelog.schema.model import TableInfo

_IDENT = r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|[^\s`\".,;/()*]+)"
_TO = re.compile(rf"\b(?:TO|AS)\s+({_IDENT})(?:\s*\.\s*({_IDENT}))?\s*(?=,|;|$|/\*)", re.IGNORECASE)


class TableAt(msgspec.Struct, frozen=True):
    """A table as of `version`, the schema version that last changed it."""

    db: str
    name: str
    version: int
    info: TableInfo
    db_id: int = 0


class Affected(msgspec.Struct, frozen=True):
    """One object of a DDL: `before` is None for a creation, `after` for a drop. `db` is the
    schema it ends up in (of a drop: the one it was in)."""

    db: str
    before: TableAt | None
    after: TableAt | None


class Schemas:
    """Tables by id and version, and schema names by id. Versions are put in rising order."""

    def __init__(self) -> None:
        self._versions: dict[int, list[int]] = {}
        self._states: dict[int, list[TableAt | None]] = {}
        self._dbs: dict[int, str] = {}
        self._names: dict[tuple[int, str], int] = {}
        self._dropped_with_db: dict[int, tuple[int, list[TableAt]]] = {}

    def at(self, table_id: int, version: int) -> TableAt | None:
        """The state at `version`; None if there was none yet or no longer."""
        at = bisect_right(self._versions.get(table_id, ()), version)
        return self._states[table_id][at - 1] if at else None

    def ended(self, table_id: int, version: int) -> bool:
        """A state is known at `version`, and it says the table is gone."""
        at = bisect_right(self._versions.get(table_id, ()), version)
        return at > 0 and self._states[table_id][at - 1] is None

    def current(self, table_id: int) -> TableAt | None:
        """The newest state."""
        states = self._states.get(table_id)
        return states[-1] if states else None

    def every(self) -> Iterator[TableAt]:
        """Each state of each table."""
        for states in self._states.values():
            yield from (state for state in states if state is not None)

    def named(self, db_id: int, lower_name: str) -> TableAt | None:
        """The living table of that name."""
        table_id = self._names.get((db_id, lower_name))
        return self.current(table_id) if table_id is not None else None

    def put(self, db_id: int, info: TableInfo, version: int) -> TableAt:
        """A new state of `info.id`."""
        self._forget_name(info.id)
        state = TableAt(self._dbs.get(db_id, ""), info.name.text, version, info, db_id)
        self._append(info.id, version, state)
        self._names[db_id, info.name.lower] = info.id
        return state

    def end(self, table_id: int, version: int) -> TableAt | None:
        """The id means nothing from `version` on. Returns the last state."""
        last = self.current(table_id)
        if last is not None:
            self._forget_name(table_id)
            self._append(table_id, version, None)
        return last

    def name_db(self, db_id: int, name: str) -> None:
        self._dbs[db_id] = name

    def learn_db(self, db_id: int, name: str) -> None:
        """The name of a schema that was created before the history begins (mysql, test)."""
        self._dbs.setdefault(db_id, name)

    def db_id(self, name: str, default: int) -> int:
        """The id of a living schema by name."""
        lower = name.lower()
        return next((i for i, known in self._dbs.items() if known.lower() == lower), default)

    def drop_db(self, db_id: int, version: int) -> list[Affected]:
        """End the schema and all its tables."""
        gone: list[TableAt] = []
        for table_id in [i for (db, _), i in self._names.items() if db == db_id]:
            before = self.end(table_id, version)
            if before is not None:
                gone.append(before)
        self._dropped_with_db[db_id] = (version, gone)
        self._dbs.pop(db_id, None)
        return [Affected(before.db, before, None) for before in gone]

    def restore_db(self, db_id: int, version: int) -> list[Affected]:
        """Bring back what `drop_db` ended."""
        _, back = self._dropped_with_db.pop(db_id, (0, []))
        states = [self.put(db_id, table.info, version) for table in back]
        return [Affected(state.db, None, state) for state in states]

    def prune(self, below: int) -> None:
        """Of each table keep the state that holds at `below` and all later ones; forget ids whose
        table was gone by then."""
        for table_id in list(self._versions):
            versions, states = self._versions[table_id], self._states[table_id]
            keep = max(0, bisect_right(versions, below) - 1)
            del versions[:keep], states[:keep]
            if len(states) == 1 and states[0] is None and versions[0] < below:
                del self._versions[table_id], self._states[table_id]
        for db_id in [i for i, (at, _) in self._dropped_with_db.items() if at < below]:
            del self._dropped_with_db[db_id]

    def _append(self, table_id: int, version: int, state: TableAt | None) -> None:
        versions = self._versions.setdefault(table_id, [])
        states = self._states.setdefault(table_id, [])
        if versions and versions[-1] == version:
            # One DDL renames the same table twice (a TO x, b TO a, x TO b): the last name stays.
            states[-1] = state
        else:
            versions.append(version)
            states.append(state)

    def _forget_name(self, table_id: int) -> None:
        last = self.current(table_id)
        if last is not None and self._names.get((last.db_id, last.info.name.lower)) == table_id:
            del self._names[last.db_id, last.info.name.lower]


def renamed_to(query: str) -> list[str]:
    """The schema of each target in `RENAME TABLE a TO b.c, …`; "" where it is unqualified."""
    return [_unquote(first) if second else "" for first, second in _TO.findall(query)]


def _unquote(name: str) -> str:
    quote = name[0]
    if quote in '`"':
        return name[1:-1].replace(quote * 2, quote)
    return name
