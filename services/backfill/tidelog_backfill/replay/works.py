"""What was gathered -> what a part's lane writes, transaction by transaction: the second half of
the reduce side. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any, final

import msgspec

from tidelog.changes import Event
from tidelog.downstream import Image, TableShare
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Planner
from tidelog_backfill.replay.bundles import GONE, Change
from tidelog_backfill.replay.gather import Group
from tidelog_backfill.replay.routing import Routing

WORK_BYTES = 8 << 20
_ROWS = msgspec.json.Decoder(list[dict[str, Any]])
_EVENTS = msgspec.json.Decoder(list[Event])
_TABLE = itemgetter(0)
_FORM = attrgetter("form")
_KIND_AND_FORM = attrgetter("kind", "form")


@final
class Works:
    """`rows`: that were handed out; it grows while the works are taken."""

    def __init__(self, routing: Routing, max_rows: int) -> None:
        self._routing = routing
        self._max_rows = max_rows
        self.rows = 0

    def of(self, groups: Iterable[Group]) -> Iterator[list[TableShare]]:
        """Shares of one transaction each."""
        open_: list[Change] = []
        for table, of_table in groupby(groups, _TABLE):
            found = (changes for _, changes in of_table)
            if not self._routing.spread[table]:
                yield from self._in_order(found)
                continue
            for changes in self._cut(found, open_):
                yield self._net(changes)
        if open_:
            yield self._net(open_)

    def _cut(self, found: Iterable[list[Change]], open_: list[Change]) -> Iterator[list[Change]]:
        """Into transactions. What is left is in `open_`, which may hold some already."""
        size = sum(len(change.payload) for change in open_)
        for changes in found:
            for change in changes:
                open_.append(change)
                size += len(change.payload)
                if len(open_) >= self._max_rows or size >= WORK_BYTES:
                    yield open_.copy()
                    open_.clear()
                    size = 0

    def _net(self, changes: list[Change]) -> list[TableShare]:
        """Of spread tables. All deletes come first: they may be of a bucket whose other rows are
        put by the same transaction."""
        self.rows += len(changes)
        changes.sort(key=_KIND_AND_FORM)
        shares: list[TableShare] = []
        for (kind, number), found in groupby(changes, _KIND_AND_FORM):
            form, rows = self._routing.forms[number], _images(list(found))
            if kind == GONE:
                shares.append(TableShare(form.db, form.structure, deletes=rows))
            else:
                shares.append(TableShare(form.db, form.structure, updates=rows))
        return shares

    def _in_order(self, found: Iterable[list[Change]]) -> Iterator[list[TableShare]]:
        """As on a single lane of an Applier."""
        planner = Planner(1)
        open_: list[Change] = []
        rest = (left for left in [open_] if left)
        for window, changes in enumerate(chain(self._cut(found, open_), rest)):
            yield self._planned(planner, window, changes)

    def _planned(self, planner: Planner, window: int, changes: list[Change]) -> list[TableShare]:
        self.rows += len(changes)
        tables: list[TableEvents] = []
        for number, of_form in groupby(changes, _FORM):
            form = self._routing.forms[number]
            events = _EVENTS.decode(_joined(list(of_form)))
            tables.append(TableEvents(form.db, form.structure, form.rule, events))
        plan = planner.plan(window, tables, safe=True)
        assert plan is not None, "one lane has no conflicts"
        planner.applied(window)
        return plan[0]


def _images(changes: list[Change]) -> list[Image]:
    rows = _ROWS.decode(_joined(changes))
    return [Image(row, change.b64) for row, change in zip(rows, changes, strict=True)]


def _joined(changes: list[Change]) -> bytes:
    """A JSON array of what they hold: read at once."""
    return b"[" + b",".join([change.payload for change in changes]) + b"]"
