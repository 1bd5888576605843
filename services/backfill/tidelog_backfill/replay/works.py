"""A part's rows -> what its lane writes, transaction by transaction: the reduce side. Pure.

Rows come sorted, so of a spread table one key is in hand at a time, whatever a part holds. Within
a transaction deletes come before puts: a row that is deleted may be equal, for the database, to one
that is put and spelled otherwise; those share a normalised key, and so a transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import final

import msgspec

from tidelog.changes import Event
from tidelog.downstream import Image, TableShare
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Planner
from tidelog_backfill.replay.routing import Routing
from tidelog_backfill.replay.shuffle import GONE, PIN, Sent

WORK_BYTES = 8 << 20
_ROW = msgspec.json.Decoder(dict)
_NAMES = msgspec.json.Decoder(list[str])
_EVENT = msgspec.json.Decoder(Event)
_TABLE, _KEY = attrgetter("table"), attrgetter("key")


@final
class Works:
    """`pins`: tables that must have one part, of which nothing was written. `rows`: that remained
    and were handed out. Both grow while the works are taken."""

    def __init__(self, routing: Routing, max_rows: int) -> None:
        self._routing = routing
        self._max_rows = max_rows
        self.pins: set[int] = set()
        self.rows = 0

    def of(self, rows: Iterable[Sent]) -> Iterator[list[TableShare]]:
        """Shares of one transaction each."""
        open_ = _Open()
        for table, of_table in groupby(rows, _TABLE):
            if not self._routing.spread[table]:
                yield from self._in_order(of_table)
                continue
            for _, of_key in groupby(of_table, _KEY):
                changes = list(of_key)
                if changes[0].kind == PIN:
                    self.pins.add(table)
                if table in self.pins:
                    continue
                self.rows += open_.add(changes)
                if open_.rows >= self._max_rows or open_.bytes >= WORK_BYTES:
                    yield open_.shares(self._routing)
                    open_ = _Open()
        if open_.rows:
            yield open_.shares(self._routing)

    def _in_order(self, rows: Iterable[Sent]) -> Iterator[list[TableShare]]:
        """As on a single lane of an Applier. A change that two logs have comes once."""
        planner = Planner(1)
        runs: list[tuple[int, list[Event]]] = []
        window = count = size = 0
        last = (-1, -1)
        for row in rows:
            if (row.commit_ts, row.seq) == last:
                continue
            last = row.commit_ts, row.seq
            if not runs or runs[-1][0] != row.form:
                runs.append((row.form, []))
            runs[-1][1].append(_EVENT.decode(row.payload))
            count += 1
            size += len(row.payload)
            if count >= self._max_rows or size >= WORK_BYTES:
                yield self._planned(planner, window, runs)
                self.rows += count
                window, runs, count, size = window + 1, [], 0, 0
        if runs:
            yield self._planned(planner, window, runs)
            self.rows += count

    def _planned(
        self, planner: Planner, window: int, runs: list[tuple[int, list[Event]]]
    ) -> list[TableShare]:
        forms = [(self._routing.forms[number], events) for number, events in runs]
        tables = [TableEvents(form.db, form.structure, form.rule, events) for form, events in forms]
        plan = planner.plan(window, tables, safe=True)
        assert plan is not None, "one lane has no conflicts"
        planner.applied(window)
        return plan[0]


def latest(changes: Sequence[Sent]) -> Iterator[Sent]:
    """The last change of each exact key, of one normalised key's in order."""
    for number, change in enumerate(changes, 1):
        if number == len(changes) or changes[number].exact != change.exact:
            yield change


class _Open:
    """A transaction that is being filled with rows of spread tables."""

    def __init__(self) -> None:
        self.rows = self.bytes = 0
        self._deletes: dict[int, list[Image]] = {}
        self._puts: dict[int, list[Image]] = {}
        """By form."""

    def add(self, changes: list[Sent]) -> int:
        """All of one normalised key, in order of the exact keys and of time."""
        found = 0
        for change in latest(changes):
            to = self._deletes if change.kind == GONE else self._puts
            b64 = _NAMES.decode(change.b64) if change.b64 else ()
            to.setdefault(change.form, []).append(Image(_ROW.decode(change.payload), b64))
            self.bytes += len(change.payload)
            found += 1
        self.rows += found
        return found

    def shares(self, routing: Routing) -> list[TableShare]:
        """Of a table with two forms all deletes first."""
        forms = routing.forms
        deletes = [
            TableShare(forms[number].db, forms[number].structure, deletes=rows)
            for number, rows in self._deletes.items()
        ]
        puts = [
            TableShare(forms[number].db, forms[number].structure, updates=rows)
            for number, rows in self._puts.items()
        ]
        return deletes + puts
