"""Versions of every table by id: the tracker's state, and the steps DDL handlers are made of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from tidelog.schema.folded import Folded, State
from tidelog.schema.model import Name, TableInfo
from tidelog.schema.packed import Packed, unpack


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


class Change(msgspec.Struct, frozen=True, gc=False):
    """An `Affected` whose tables are packed."""

    db: str
    before: State | None
    after: State | None


class Schemas:
    """Tables by id and version, and schema names by id, over what was folded: that is read, never
    changed. Versions are put in rising order; one that is not above the folded state changes
    nothing, as DDLs of one table come in the same order by job, version and time."""

    def __init__(self, folded: Folded) -> None:
        self.folded = folded
        self.dbs: dict[int, str] = dict(folded.dbs)
        self.dropped_dbs: dict[int, int] = dict(folded.dropped_dbs)
        self._versions: dict[int, list[int]] = {}
        self._states: dict[int, list[State | None]] = {}
        self._last: dict[int, State] = {}
        """The newest state of each id touched, be it ended."""
        self._names: dict[tuple[int, str], int | None] = {}
        """Over the folded names; None: there is no such table any more."""

    def at(self, table_id: int, version: int) -> State | None:
        """The state at `version`; None if there was none yet or no longer. Below what was folded
        there is one state only."""
        at = bisect_right(self._versions.get(table_id, ()), version)
        return self._states[table_id][at - 1] if at else self.folded.live.get(table_id)

    def ended(self, table_id: int, version: int) -> bool:
        """A state is known at `version`, and it says the table is gone."""
        at = bisect_right(self._versions.get(table_id, ()), version)
        return self._states[table_id][at - 1] is None if at else table_id in self.folded.ended

    def current(self, table_id: int) -> State | None:
        """The newest state."""
        states = self._states.get(table_id)
        return states[-1] if states else self.folded.live.get(table_id)

    def states(self, table_id: int) -> Iterator[State]:
        """Each state of one table that is still known."""
        if (folded := self.folded.live.get(table_id)) is not None:
            yield folded
        yield from (state for state in self._states.get(table_id, ()) if state is not None)

    def every(self) -> Iterator[State]:
        """Each state of each table."""
        yield from self.folded.live.values()
        for states in self._states.values():
            yield from (state for state in states if state is not None)

    def newest(self) -> Iterator[tuple[int, State, bool]]:
        """Of each table that was touched: version, newest state, and whether it lives."""
        for table_id, last in self._last.items():
            yield self._versions[table_id][-1], last, self._states[table_id][-1] is not None

    def named(self, db_id: int, lower_name: str) -> State | None:
        """The living table of that name."""
        key = (db_id, lower_name)
        known = self._names[key] if key in self._names else self.folded.named(db_id, lower_name)
        return self.current(known) if known is not None else None

    def put(self, db_id: int, table: Packed, version: int) -> State:
        """A new state of `table.id`."""
        state = State(self.dbs.get(db_id, ""), db_id, version, table)
        if version <= self.folded.version_of(table.id):
            return state
        self._forget_name(table.id)
        self._append(table.id, version, state)
        self._last[table.id] = state
        self._names[db_id, table.lower] = table.id
        return state

    def end(self, table_id: int, version: int) -> State | None:
        """The id means nothing from `version` on. Returns the last state."""
        last = self.current(table_id)
        if last is None or version <= self.folded.version_of(table_id):
            return None
        self._forget_name(table_id)
        self._append(table_id, version, None)
        self._last[table_id] = last
        return last

    def name_db(self, db_id: int, name: str) -> None:
        self.dbs[db_id] = name

    def learn_db(self, db_id: int, name: str) -> None:
        """The name of a schema that was created before the history begins (mysql, test)."""
        self.dbs.setdefault(db_id, name)

    def db_id(self, name: str, default: int) -> int:
        """The id of a living schema by name."""
        lower = name.lower()
        return next((i for i, known in self.dbs.items() if known.lower() == lower), default)

    def drop_db(self, db_id: int, version: int) -> list[Change]:
        """End the schema and all its tables."""
        living = dict(self.folded.names.get(db_id, {}))
        for (db, lower), table_id in self._names.items():
            if db == db_id and table_id is not None:
                living[lower] = table_id
            elif db == db_id:
                living.pop(lower, None)
        gone = [self.end(table_id, version) for table_id in sorted(living.values())]
        self.dbs.pop(db_id, None)
        self.dropped_dbs[db_id] = version
        return [Change(before.db, before, None) for before in gone if before is not None]

    def restore_db(self, db_id: int, version: int) -> list[Change]:
        """Bring back what `drop_db` ended."""
        dropped = self.dropped_dbs.pop(db_id, 0)
        ended = {last.table.id: (at, last, False) for at, last in self.folded.ended.values()}
        ended |= {one[1].table.id: one for one in self.newest()}
        back = [
            self.put(db_id, last.table, version)
            for _, (at, last, lives) in sorted(ended.items())
            if at == dropped and last.db_id == db_id and not lives
        ]
        return [Change(state.db, None, state) for state in back]

    def _append(self, table_id: int, version: int, state: State | None) -> None:
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
        if last is None:
            return
        known = self.named(last.db_id, last.table.lower)
        if known is not None and known.table.id == table_id:
            self._names[last.db_id, last.table.lower] = None


def unpacked(state: State) -> TableAt:
    """The state with its TableInfo, which must be here."""
    return TableAt(state.db, state.table.name, state.version, unpack(state.table), state.db_id)


def named_only(state: State) -> TableAt:
    """The state with what is known of it without its TableInfo: which table it is."""
    table = state.table
    info = TableInfo(table.id, Name(table.name, table.lower))
    return TableAt(state.db, table.name, state.version, info, state.db_id)
