"""pb_binlog files: DDLs are texts, rows name their tables, structures come from elsewhere. Pure.

The original's files have a DDL at its own binlog's place, and rows that need it may stand before
that (docs/adr/0005): they have columns which it brings. Then it is early here, too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Protocol

import msgspec

from tidelog.changes import DdlMessage, structure_key
from tidelog.schema.structure import TableStructure
from tidelog.timestamps import LOGICAL_BITS, physical_ms
from tidelog_backfill.files.chunk import Facts, FoundVersion
from tidelog_backfill.files.names import Names
from tidelog_backfill.replay.errors import DdlNotDecided, DdlNotTold, no_structure
from tidelog_backfill.replay.intervals import Intervals
from tidelog_backfill.replay.outline import Outline, Stretch, position_after, position_before
from tidelog_backfill.replay.pb_ddls import TextDdl, text_ddls
from tidelog_backfill.replay.routing import Place

AHEAD_MS = 60_000
"""So far rows may be ahead of the DDL that brings their columns."""


class Schemas(Protocol):
    """What tells what DDLs do. `left_out`: those that are not run, by reason. `forgotten`: (from,
    place) of tables that are another now, in whatever way: again as `base` has them."""

    left_out: dict[str, int]
    forgotten: list[tuple[int, Place]]

    def base(self, db: str, name: str) -> TableStructure | None:
        """A table that was there before the files' DDLs."""

    def message(self, ddl: TextDdl) -> DdlMessage | None:
        """They come in order. None: nothing is to be run. Raises DdlNotTold, DdlNotDecided."""


def bounds(facts: Iterable[Facts]) -> tuple[int, int]:
    """(what was committed up to there stands elsewhere, the last commit_ts)."""
    times = [ts for one in facts for ts in (one.first_ts, one.last_ts) if ts]
    times += [ddl.commit_ts for one in facts for ddl in one.ddls]
    return min(times, default=1) - 1, max(times, default=0)


def outline(
    facts: Sequence[Facts], schemas: Schemas, names: Names, after_ts: int, until_ts: int
) -> Outline:
    """Of (after_ts, until_ts] all structures are known. Raises DdlNotTold, DdlNotDecided, Corrupt;
    Stopped for rows of a table that nothing tells of."""
    begins, ends = bounds(facts)
    ddls = _told(facts, schemas, until_ts)
    rows = sorted((one for each in facts for one in each.versions), key=lambda one: one.first_ts)
    ddls = _with_early(ddls, rows, schemas)
    tables = _Tables(ddls, schemas)
    over = Intervals((one.first_ts, one.last_ts, one) for one in rows)
    stretches: list[Stretch] = []
    at, waiting = begins, list[DdlMessage]()

    def end(until: int) -> None:
        nonlocal waiting
        met = {(one.db, one.table): one for _, _, one in over.over(at, min(until, until_ts))}
        wanted = {place: one for place, one in met.items() if names.wants(*place)}
        shapes = tables.of(wanted, max(at, after_ts), is_done=until <= after_ts)
        stretches.append(Stretch(at, until, waiting, structures=shapes))
        waiting = []

    for ddl in ddls:
        if position_before(ddl) > at:
            end(position_before(ddl))
        waiting.append(ddl)
        at = max(at, position_after(ddl))
    end(max(ends, at))
    return Outline(begins, ends, stretches, dict(schemas.left_out))


def _told(facts: Sequence[Facts], schemas: Schemas, until_ts: int) -> list[DdlMessage]:
    """Those up to `until_ts`, and as far as they can be told those that rows before it may need: so
    what is early doesn't depend on where a replay ends."""
    found: list[DdlMessage] = []
    for ddl in text_ddls(facts, until_ts + (AHEAD_MS << LOGICAL_BITS)):
        try:
            told = schemas.message(ddl)
        except (DdlNotTold, DdlNotDecided):
            if ddl.commit_ts > until_ts:
                return found
            raise
        if told is not None:
            found.append(told)
    return found


class _Tables:
    """What each table is after which DDL."""

    def __init__(self, ddls: Iterable[DdlMessage], schemas: Schemas) -> None:
        self._schemas = schemas
        self._states: dict[Place, list[tuple[int, TableStructure | None]]] = {}
        for ddl in ddls:
            at = position_after(ddl)
            for one in ddl.tables:
                if one.before is not None:
                    place = one.db_before, one.before.name
                    self._states.setdefault(place, [(0, one.before)]).append((at, None))
                if one.after is not None:
                    place = one.db_after, one.after.name
                    self._states.setdefault(place, []).append((at, one.after))
        for at, place in schemas.forgotten:
            states = self._states.setdefault(place, [])
            states.append((at, schemas.base(*place)))
            states.sort(key=itemgetter(0))

    def at(self, place: Place, after: int) -> TableStructure | None:
        """What rows behind `after` are of."""
        states = self._states.get(place, [])
        number = bisect_right(states, after, key=itemgetter(0))
        return states[number - 1][1] if number else self._schemas.base(*place)

    def of(
        self, met: Mapping[Place, FoundVersion], after: int, *, is_done: bool
    ) -> dict[str, TableStructure]:
        """By structure_key. Raises Stopped for one that nobody knows, unless its rows are done."""
        found: dict[str, TableStructure] = {}
        for place, rows in sorted(met.items()):
            structure = self.at(place, after)
            if structure is not None:
                found[structure_key(place[0], structure)] = structure
            elif not is_done:
                raise no_structure(*place, rows.first_ts)
        return found


def _with_early(
    ddls: list[DdlMessage], rows: Iterable[FoundVersion], schemas: Schemas
) -> list[DdlMessage]:
    """Ahead of rows that have a column which only they bring."""
    tables = _Tables(ddls, schemas)
    for one in rows:
        place = one.db, one.table
        known = tables.at(place, one.first_ts - 1)
        if known is None:
            continue
        unknown = set(one.columns) - {column.name for column in known.columns}
        ahead = _bringing(unknown, place, one.first_ts, ddls) if unknown else []
        if ahead:
            ids = set(map(id, ahead))
            moved = [
                msgspec.structs.replace(ddl, commit_ts=one.first_ts, early=True) for ddl in ahead
            ]
            kept = (ddl for ddl in ddls if id(ddl) not in ids)
            ddls = sorted(chain(kept, moved), key=lambda ddl: ddl.commit_ts)
            tables = _Tables(ddls, schemas)
    return ddls


def _bringing(
    columns: set[str], place: Place, first_ts: int, ddls: Iterable[DdlMessage]
) -> list[DdlMessage]:
    """The DDLs of the table alone up to the first that has one of them."""
    found: list[DdlMessage] = []
    for ddl in ddls:
        late = physical_ms(ddl.commit_ts) - physical_ms(first_ts)
        if ddl.commit_ts <= first_ts or not _touches(ddl, place):
            continue
        (table,) = ddl.tables if len(ddl.tables) == 1 else (None,)
        if late > AHEAD_MS or table is None or table.before is None or table.after is None:
            return []
        found.append(ddl)
        if not columns.isdisjoint(column.name for column in table.after.columns):
            return found
    return []


def _touches(ddl: DdlMessage, place: Place) -> bool:
    return any(
        one.before is not None and (one.db_before, one.before.name) == place for one in ddl.tables
    )
