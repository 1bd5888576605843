"""Windows of changes -> what each lane writes (design section 9).

A window is what is planned at once: the rows in hand of whole batches, or a piece of one large
transaction. Each lane writes its shares in order, windows one after the other; between lanes there
is no order at all. Why the downstream comes out as in upstream order (tests/unit/plan):

- A replaceable table gets DELETEs by the event's key and REPLACEs, its net effect per key. Two of
  them commute, whatever the downstream holds, unless they have the event's key in common, or are
  REPLACEs that share another unique key's value: a REPLACE clears every older image in its way, and
  a DELETE finds nothing where one did. So rows with the same event's key share a lane, and of
  tables with several unique keys the values that rows *get* are followed through `Causality`; what
  they had before needs no protection. Two rows at the end of a window never share a value, so
  within a window only the event's key decides.
- A table that is not replaceable has one unique key. Rows are matched by it alone; updates that
  change it stay updates, and with all other events of the keys that they link go through one lane,
  in order.
- A table whose replay is not idempotent goes through one lane, in order. So does one that holds a
  value of which `keys` can't tell what it equals, until its keys are others, though folded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from tidelog.changes import Event
from tidelog.downstream import TableShare
from tidelog.plan.events import TableEvents
from tidelog.plan.routes import Place, TableRoute

TABLES_KEPT: Final = 4096

Plan = list[list[TableShare]]
"""By lane; empty for one that has nothing to do."""


@final
class Planner:
    """Of one reading of the stream: one that begins anew at an earlier position needs another."""

    def __init__(self, lanes: int) -> None:
        self._lanes = lanes
        self._routes: dict[Place, TableRoute] = {}
        """The tables met last, the latest at the end."""
        self._in_flight: dict[int, list[TableRoute]] = {}
        self._flushing = False
        self._offsets = _Offsets()

    def plan(
        self, window: int, tables: Sequence[TableEvents], *, safe: bool = False
    ) -> Plan | None:
        """The shares of window number `window`, which is above all before it, and in flight from
        now on. None: apply everything in flight first, then ask again with the same window. `safe`:
        some of it may have been applied before. A table may come at several versions, in order.
        """
        if self._flushing:
            assert not self._in_flight, "a flush was asked for"
            self._flushing = False
            for route in self._routes.values():
                route.reset()
        plan: Plan = [[] for _ in range(self._lanes)]
        routes: list[TableRoute] = []
        places = _by_place(tables)
        for place, runs in places.items():
            route = self._route(place)
            if not route.share(runs, window, safe, self._offsets.of(place, runs), plan):
                self._flushing = True
                return None
            routes.append(route)
        for route in routes:
            route.begin(window)
        self._in_flight[window] = routes
        self._offsets.advance(places)
        self._forget()
        return plan

    def forget(self, place: Place) -> None:
        """Another table is there now, or none: it begins anew. Nothing is in flight."""
        assert not self._in_flight
        self._routes.pop(place, None)
        self._offsets.forget(place)

    def one_lane(self) -> list[str]:
        """The tables that keep to one lane because nobody can tell what their keys equal."""
        return sorted(f"{db}.{t}" for (db, t), route in self._routes.items() if route.one_lane)

    def resize(self, lanes: int) -> None:
        """Go on with so many lanes. Nothing is in flight; a large transaction may be half done."""
        assert not self._in_flight
        self._lanes = lanes
        self._flushing = False
        self._routes.clear()

    def applied(self, window: int) -> None:
        """Every lane is done with the window."""
        for route in self._in_flight.pop(window):
            route.applied(window)

    def _route(self, place: Place) -> TableRoute:
        route = self._routes.pop(place, None) or TableRoute(place, self._lanes)
        self._routes[place] = route
        return route

    def _forget(self) -> None:
        if len(self._routes) > TABLES_KEPT:
            idle = [place for place, route in self._routes.items() if not route.in_flight]
            for place in idle[: len(self._routes) - TABLES_KEPT]:
                del self._routes[place]


def _by_place(tables: Sequence[TableEvents]) -> dict[Place, list[TableEvents]]:
    places: dict[Place, list[TableEvents]] = {}
    for run in tables:
        if run.events:
            places.setdefault((run.db, run.structure.name), []).append(run)
    return places


@final
class _Offsets:
    """How many events of its last transaction went before, by table that goes in order. Tables are
    not abreast: messages are grouped by table, so a piece may have the end of one transaction in
    one table, and the beginning of an earlier one in another."""

    def __init__(self) -> None:
        self._last: dict[Place, tuple[int, int]] = {}
        """The commit_ts, and how many: small, and one an ordered table, so all are kept."""

    def of(self, place: Place, runs: list[TableEvents]) -> list[int]:
        """How many events of the first one's transaction went before, for each of the runs."""
        last = self._last.get(place, _NOTHING)
        offsets: list[int] = []
        for run in runs:
            offsets.append(last[1] if run.events[0].commit_ts == last[0] else 0)
            last = _after(last, run.events)
        return offsets

    def forget(self, place: Place) -> None:
        self._last.pop(place, None)

    def advance(self, places: dict[Place, list[TableEvents]]) -> None:
        for place, runs in places.items():
            if any(run.rule.ordered for run in runs):
                last = self._last.get(place, _NOTHING)
                for run in runs:
                    last = _after(last, run.events)
                self._last[place] = last


_NOTHING: Final = (-1, 0)


def _after(last: tuple[int, int], events: list[Event]) -> tuple[int, int]:
    commit_ts = events[-1].commit_ts
    tail = _with_ts(events, commit_ts)
    whole = tail == len(events) and commit_ts == last[0]
    return commit_ts, tail + (last[1] if whole else 0)


def _with_ts(events: list[Event], commit_ts: int) -> int:
    """How many of the last events have it."""
    count = 0
    for event in reversed(events):
        if event.commit_ts != commit_ts:
            break
        count += 1
    return count
