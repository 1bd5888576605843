"""A small table with unique keys, upstream and downstream, and lanes without any order."""

from __future__ import annotations

import unicodedata
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event
from tidelog.downstream import TableRule, TableShare
from tidelog.plan.events import TableEvents
from tidelog.plan.window import Planner
from tidelog.schema.structure import KeyPart, KeyStructure, TableStructure

Row = dict[str, Any]
NAMES = ("id", "a", "b")
MOST_IN_FLIGHT = 4


def same(value: Any) -> Any:
    """Equal for values that a case-insensitive collation takes for equal."""
    if not isinstance(value, str):
        return value
    plain = unicodedata.normalize("NFD", value)
    return "".join(c for c in plain if not unicodedata.combining(c)).lower().rstrip(" ")


@dataclass
class Toy:
    """A table of `keys` unique keys (`id` first), of text or integers."""

    keys: int
    text: bool
    replaceable: bool = True
    rare: float = 0.02
    """How often a text is one that may equal anything."""

    @property
    def structure(self) -> TableStructure:
        kind = "varchar(20)" if self.text else "bigint"
        more = {"collation": "utf8mb4_general_ci"} if self.text else {}
        columns = [column(name, kind, **more) for name in NAMES]
        extra = tuple(KeyStructure(n, (KeyPart(n),), True) for n in NAMES[1 : self.keys])
        return table("t", *columns, column("v", "bigint"), key=("id",), keys=extra)

    @property
    def rule(self) -> TableRule:
        keys = tuple((KeyPart(name),) for name in NAMES[: self.keys])
        return TableRule(False, self.replaceable, keys)

    def in_the_way(self, rows: dict[Any, Row], row: Row) -> list[Any]:
        """The keys of the rows that share a unique key's value with `row`."""
        unique = [name for name in NAMES[: self.keys] if row[name] is not None]
        return [
            key
            for key, other in rows.items()
            if any(same(other[name]) == same(row[name]) for name in unique)
        ]


@dataclass
class Upstream:
    """Takes what is allowed and tells it as events."""

    toy: Toy
    rows: dict[Any, Row] = field(default_factory=dict)

    def insert(self, row: Row, commit_ts: int) -> Event | None:
        if self.toy.in_the_way(self.rows, row):
            return None
        self.rows[same(row["id"])] = row
        return Event("c", commit_ts, None, None, row)

    def update(self, key: Any, changes: Row, commit_ts: int) -> Event | None:
        before = self.rows.get(same(key))
        if before is None:
            return None
        rest = {k: row for k, row in self.rows.items() if row is not before}
        after = before | changes
        if self.toy.in_the_way(rest, after):
            return None
        self.rows = rest | {same(after["id"]): after}
        return Event("u", commit_ts, None, before, after)

    def delete(self, key: Any, commit_ts: int) -> Event | None:
        before = self.rows.pop(same(key), None)
        return None if before is None else Event("d", commit_ts, None, before)


@dataclass
class Step:
    """One row's write: one statement's part, which meets the table at any moment."""

    what: str
    before: Row
    after: Row
    safe: bool


def steps(share: TableShare, safe: bool) -> list[Step]:
    out = [Step("delete", image.row, {}, safe) for image in share.deletes]
    out += [Step("insert", {}, image.row, safe) for image in share.inserts]
    out += [Step("update", {}, image.row, safe) for image in share.updates]
    return out + [Step("event", e.before or {}, e.after or {}, safe) for e in share.events]


class Downstream:
    """Replaces rows, or where that is not allowed inserts or updates them by their key: the column
    `own`, which only it has, then stays. Says when a write does not meet what was foretold."""

    def __init__(self, toy: Toy, rows: dict[Any, Row]) -> None:
        self.toy = toy
        self.rows = {key: row | {"own": "from before"} for key, row in rows.items()}

    def write(self, step: Step) -> None:
        exact = self.toy.keys == 1 and not step.safe
        if step.what == "event":
            self._event(step.before, step.after)
            return
        row = step.before if step.what == "delete" else step.after
        there = same(row["id"]) in self.rows
        if exact:
            assert there == (step.what != "insert"), step
        if step.what == "delete":
            self.rows.pop(same(row["id"]), None)
        else:
            self._put(row)

    def _put(self, row: Row) -> None:
        key = same(row["id"])
        if not self.toy.replaceable:
            self.rows[key] = self.rows.get(key, {"own": "default"}) | row
            return
        for other in self.toy.in_the_way(self.rows, row):
            del self.rows[other]
        self.rows[key] = row | {"own": "default"}

    def _event(self, before: Row, after: Row) -> None:
        old = self.rows.pop(same(before["id"])) if before else {"own": "default"}
        if after:
            assert not self.toy.in_the_way(self.rows, after)
            self.rows[same(after["id"])] = old | after

    def shown(self) -> list[Row]:
        """Without what a REPLACE loses."""
        hidden = {"own"} if self.toy.replaceable else set()
        rows = [{n: v for n, v in row.items() if n not in hidden} for row in self.rows.values()]
        return sorted(rows, key=repr)


class Lanes:
    """Queues of steps that run in the order that a schedule chooses."""

    def __init__(self, downstream: Downstream, lanes: int, *, safe: bool = False) -> None:
        self.downstream = downstream
        self.planner = Planner(lanes)
        self.safe = safe
        self.queues: list[deque[tuple[int, Step]]] = [deque() for _ in range(lanes)]
        self.left: dict[int, int] = {}
        self.window = 0
        self.flushes = 0
        self.bounds: dict[int, int] = {}
        """Window in flight -> where its events begin."""

    def write_one(self, choice: int) -> None:
        """A step of one of the lanes that have some."""
        ready = [queue for queue in self.queues if queue]
        if ready:
            window, step = ready[choice % len(ready)].popleft()
            self.downstream.write(step)
            self._done(window)

    def drain(self) -> None:
        while any(self.queues):
            self.write_one(self.window)

    def plan(self, tables: list[TableEvents], begins: int) -> None:
        if len(self.left) == MOST_IN_FLIGHT:
            self.drain()
        self.window += 1
        plan = self.planner.plan(self.window, tables, safe=self.safe)
        if plan is None:
            self.flushes += 1
            self.drain()
            plan = self.planner.plan(self.window, tables, safe=self.safe)
            assert plan is not None
        self.bounds[self.window] = begins
        self.left[self.window] = 1
        for queue, shares in zip(self.queues, plan, strict=True):
            found = [step for share in shares for step in steps(share, self.safe)]
            queue.extend((self.window, step) for step in found)
            self.left[self.window] += len(found)
        self._done(self.window)

    def _done(self, window: int) -> None:
        self.left[window] -= 1
        if not self.left[window]:
            del self.left[window], self.bounds[window]
            self.planner.applied(window)
