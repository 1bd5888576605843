"""What the DDL jobs that nobody asks about any more have made: the newest state of each table.

A snapshot is this, written down. Tables that lie in its pages are `away` until they are asked for;
what was asked for stays within a bound of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tidelog.schema.errors import TablesAway
from tidelog.schema.packed import Packed

DROPPED_DBS_MAX = 256
ENDED_MAX = 4096
"""Ids of dropped and truncated tables that are remembered, the last ones: their late mutations are
discarded, and FLASHBACK DATABASE brings them back."""
LOADED_BYTES = 64 << 20


class State(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A table as of `version`, the schema version that last changed it."""

    db: str
    db_id: int
    version: int
    table: Packed


class Folded:
    """Everything up to `ts`: no binlog of a folded job lies above it."""

    def __init__(self) -> None:
        self.ts = 0
        self.version = 0
        """The highest schema version folded."""
        self.last_job = 0
        """The highest id of a folded job."""
        self.dbs: dict[int, str] = {}
        self.dropped_dbs: dict[int, int] = {}
        """By id the version that dropped a schema; the last ones."""
        self.live: dict[int, State] = {}
        self.ended: dict[int, tuple[int, State]] = {}
        """By id the version from which on it means nothing, and its last state."""
        self.names: dict[int, dict[str, int]] = {}
        """By schema id: lower-case name to table id."""
        self.changed: set[int] = set()
        """Ids whose state the snapshot doesn't hold, or holds another one of."""
        self._loaded: dict[int, dict[int, bytes]] = {}
        self._loaded_bytes = 0

    def named(self, db_id: int, lower_name: str) -> int | None:
        return self.names.get(db_id, {}).get(lower_name)

    def version_of(self, table_id: int) -> int:
        """The version from which on the folded state of a table counts."""
        ended = self.ended.get(table_id)
        if ended is not None:
            return ended[0]
        state = self.live.get(table_id)
        return state.version if state is not None else 0

    def includes(self, job_id: int, finished_ts: int) -> bool:
        """Whether a job's outcome is in here already."""
        return job_id <= self.last_job and finished_ts <= self.ts

    def absorb(self, newest: Iterable[tuple[int, State, bool]]) -> None:
        """Take over the newest states of tables: version, state, and whether it lives."""
        for version, state, lives in newest:
            self.remove(state.table.id)
            if lives:
                self.add(state)
            else:
                self.ended[state.table.id] = version, state
            self.changed.add(state.table.id)
        for db_id in list(self.dropped_dbs)[: max(0, len(self.dropped_dbs) - DROPPED_DBS_MAX)]:
            del self.dropped_dbs[db_id]
        for table_id in list(self.ended)[: max(0, len(self.ended) - ENDED_MAX)]:
            self.remove(table_id)
            self.changed.add(table_id)

    def add(self, state: State) -> None:
        """A living table."""
        self.live[state.table.id] = state
        self.names.setdefault(state.db_id, {})[state.table.lower] = state.table.id

    def remove(self, table_id: int) -> None:
        self.ended.pop(table_id, None)
        old = self.live.pop(table_id, None)
        if old is None:
            return
        names = self.names[old.db_id]
        if names.get(old.table.lower) == table_id:
            del names[old.table.lower]
            if not names:
                del self.names[old.db_id]

    def states(self) -> Iterator[tuple[int, State]]:
        """Every state, with the version from which on it is ended; 0: it lives."""
        for state in self.live.values():
            yield 0, state
        yield from self.ended.values()

    def saved(self, moved: dict[int, tuple[State, int]]) -> None:
        """By id a state that was written, and the page it lies in. What was folded since then
        counts as changed still."""
        for table_id, (written, page) in moved.items():
            if self.live.get(table_id) is written:
                self.live[table_id] = stripped(written, page)
            elif table_id in self.ended and self.ended[table_id][1] is written:
                self.ended[table_id] = self.ended[table_id][0], stripped(written, page)
            else:
                continue
            self.changed.discard(table_id)
        self.changed = {i for i in self.changed if i in self.live or i in self.ended}

    def whole(self, states: Iterable[State]) -> list[State]:
        """The states with their bytes. Raises TablesAway: load these pages and ask again."""
        found: list[State] = []
        here: set[int] = set()
        missing: set[int] = set()
        for state in states:
            table = state.table
            if not table.away:
                found.append(state)
            elif table.key in self._loaded.get(table.page, ()):
                # A page is used again: it is the youngest now.
                page = self._loaded[table.page] = self._loaded.pop(table.page)
                here.add(table.page)
                whole = msgspec.structs.replace(table, data=page[table.key])
                found.append(msgspec.structs.replace(state, table=whole))
            else:
                missing.add(table.page)
        if missing:
            raise TablesAway(sorted(missing), len(here | missing))
        return found

    def load(self, page: int, tables: dict[int, bytes], keep: int) -> None:
        """A page of the snapshot is here, or those of its tables that will be asked for; the oldest
        pages go, but for the last `keep`."""
        self.unload(page)
        self._loaded[page] = tables
        self._loaded_bytes += _size(tables)
        while self._loaded_bytes > LOADED_BYTES and len(self._loaded) > keep:
            self.unload(next(iter(self._loaded)))

    def unload(self, page: int) -> None:
        self._loaded_bytes -= _size(self._loaded.pop(page, {}))


def stripped(state: State, page: int) -> State:
    """The state without the bytes that lie in this page."""
    table = msgspec.structs.replace(state.table, data=b"", page=page, key=state.table.id)
    return msgspec.structs.replace(state, table=table)


def _size(tables: dict[int, bytes]) -> int:
    return sum(len(data) + 128 for data in tables.values())
