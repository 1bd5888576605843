"""One table's events -> shares of lanes. Why this is right stands in window.py."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, final

from tidelog.changes import Event
from tidelog.downstream import Image, TableShare
from tidelog.plan.causality import CONFLICT, Causality, lane_of
from tidelog.plan.events import TableEvents
from tidelog.plan.fold import Folded, fold
from tidelog.plan.keys import TableKeys, Unsure
from tidelog.plan.links import keeps_keys, link
from tidelog.schema.structure import TableStructure

Place = tuple[str, str]

_ONE: Final = "one"
"""All through one lane."""
_HASH: Final = "hash"
"""By the only unique key, or the event's key of a row that has no other."""
_MAP: Final = "map"
"""By the keys in flight."""


@final
class TableRoute:
    """How one table's rows are routed now, and which of its windows are in flight. Another way of
    routing may begin only when none are."""

    def __init__(self, place: Place, lanes: int) -> None:
        self._lanes = lanes
        self._lane = lane_of(place, lanes)
        self._pinned: tuple[object, ...] | None = None
        """The keys under which a value came of which nobody can tell what it equals."""
        self.one_lane = False
        """Because of such a value, or of such keys."""
        self._way: tuple[object, ...] = ()
        self._keys: TableKeys | None = None
        self._keys_of: TableEvents | None = None
        self._causality = Causality(lanes)
        self._windows: set[int] = set()

    @property
    def in_flight(self) -> bool:
        return bool(self._windows)

    def share(
        self,
        runs: list[TableEvents],
        window: int,
        safe: bool,
        offsets: list[int],
        plan: list[list[TableShare]],
    ) -> bool:
        """Append the lanes' shares to `plan`; False: a flush is needed first. `offsets`: how many
        events of the first one's transaction went before, for each of the runs."""
        way, keys = self._choose(runs)
        if way != self._way:
            if self._windows:
                return False
            self._causality.clear()
            self._way = way
        if keys is None:
            for run, offset in zip(runs, offsets, strict=True):
                plan[self._lane].append(_whole(run, safe, offset))
            return True
        try:
            spread = self._spread(runs[0], keys, window, safe)
        except Unsure:
            self._pinned = keys.signature
            return self.share(runs, window, safe, offsets, plan)
        if spread is None:
            return False
        spread.give(plan)
        return True

    def begin(self, window: int) -> None:
        self._windows.add(window)

    def applied(self, window: int) -> None:
        self._windows.discard(window)
        self._causality.applied(window)

    def reset(self) -> None:
        """Nothing is in flight."""
        self._causality.clear()

    def _choose(self, runs: list[TableEvents]) -> tuple[tuple[object, ...], TableKeys | None]:
        """The way of routing, comparable, and the keys to route by. Rows at two versions go in one
        lane, one version after the other: keys may differ between them."""
        rule = runs[0].rule
        self.one_lane = False
        if self._lanes == 1 or rule.ordered or len(runs) > 1:
            return (_ONE,), None
        keys = self._table_keys(runs[0])
        self.one_lane = keys.unsure or keys.signature == self._pinned
        if self.one_lane:
            return (_ONE,), None
        way = _HASH if rule.replaceable and not keys.several else _MAP
        return (way, rule.replaceable, *keys.signature), keys

    def _table_keys(self, run: TableEvents) -> TableKeys:
        known = self._keys_of
        keys = self._keys
        if keys is None or known is None or not _same_table(known, run):
            self._keys = keys = TableKeys(run.structure, run.rule)
            self._keys_of = TableEvents(run.db, run.structure, run.rule, [])
        return keys

    def _spread(self, run: TableEvents, keys: TableKeys, window: int, safe: bool) -> _Spread | None:
        columns = run.structure.key_columns
        spread = _Spread(run.db, run.structure, self._lanes)
        if run.rule.replaceable:
            net = fold(run.events, columns, safe=safe)
            if not keys.several:
                _by_hash(net, keys, spread)
                return spread
            return spread if self._by_keys(net, keys, window, spread) else None
        loose, chains = link(run.events, columns, keys)
        for chain in chains:
            lane = self._causality.place(chain.keys, window)
            if lane == CONFLICT:
                return None
            spread.events[lane] += chain.events
        self._by_first(fold(loose, columns, safe=safe), keys, window, spread)
        return spread

    def _by_keys(self, net: Folded, keys: TableKeys, window: int, spread: _Spread) -> bool:
        place = self._causality.place
        for images, lists in ((net.inserts, spread.inserts), (net.updates, spread.updates)):
            for image in images:
                lane = place(keys.all(image.row, image.b64), window)
                if lane == CONFLICT:
                    return False
                lists[lane].append(image)
        for image in net.deletes:
            lane = self._lane_of_one((0, keys.first(image.row, image.b64)), window)
            spread.deletes[lane].append(image)
        return True

    def _by_first(self, net: Folded, keys: TableKeys, window: int, spread: _Spread) -> None:
        for images, lists in (
            (net.deletes, spread.deletes),
            (net.inserts, spread.inserts),
            (net.updates, spread.updates),
        ):
            for image in images:
                lane = self._lane_of_one(keys.first(image.row, image.b64), window)
                lists[lane].append(image)

    def _lane_of_one(self, key: Hashable, window: int) -> int:
        """Of a row with the event's key only. That is in no two lanes: it comes first among a row's
        keys, whose lane is its own then, and no two chains of a window share one."""
        lane = self._causality.place([key], window)
        assert lane != CONFLICT, key
        return lane


@final
class _Spread:
    """A table's changes by lane."""

    def __init__(self, db: str, structure: TableStructure, lanes: int) -> None:
        self.db = db
        self.structure = structure
        self.deletes: list[list[Image]] = [[] for _ in range(lanes)]
        self.inserts: list[list[Image]] = [[] for _ in range(lanes)]
        self.updates: list[list[Image]] = [[] for _ in range(lanes)]
        self.events: list[list[Event]] = [[] for _ in range(lanes)]

    def give(self, plan: list[list[TableShare]]) -> None:
        for lane, shares in enumerate(plan):
            images = (self.deletes[lane], self.inserts[lane], self.updates[lane])
            if any(images):
                shares.append(TableShare(self.db, self.structure, *images))
            if self.events[lane]:
                shares.append(TableShare(self.db, self.structure, events=self.events[lane]))


def _by_hash(net: Folded, keys: TableKeys, spread: _Spread) -> None:
    lanes = len(spread.deletes)
    plain = keys.plain
    for images, lists in (
        (net.deletes, spread.deletes),
        (net.inserts, spread.inserts),
        (net.updates, spread.updates),
    ):
        for image in images:
            key: Hashable = image.row[plain] if plain else keys.first(image.row, image.b64)
            lists[lane_of(key, lanes)].append(image)


def _whole(run: TableEvents, safe: bool, offset: int) -> TableShare:
    """All of a run for one lane."""
    columns = run.structure.key_columns
    if run.rule.ordered:
        return TableShare(run.db, run.structure, events=run.events, offset=offset)
    if not (run.rule.replaceable or keeps_keys(run.events, columns)):
        return TableShare(run.db, run.structure, events=run.events)
    net = fold(run.events, columns, safe=safe)
    return TableShare(run.db, run.structure, net.deletes, net.inserts, net.updates)


def _same_table(one: TableEvents, other: TableEvents) -> bool:
    same = one.structure is other.structure and one.rule is other.rule
    return same or (one.structure == other.structure and one.rule == other.rule)
