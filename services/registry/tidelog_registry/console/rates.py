"""Rates from what comes: of counters that nodes tell, and of rows by table. Pure, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from tidelog.messages import NodeStatus
from tidelog_registry.console.shown import OtherTables, TableShown

WINDOW_S = 10
"""Of a table's rate."""
SLOTS = WINDOW_S + 1
"""The present second, too."""
TABLES = 256
"""Of a feed, that are counted one by one."""
LISTED = 12
HEARTBEATS = 6
"""Over so many a node's rates are taken: about WINDOW_S."""


class NodeRates:
    """The counts of a node's last heartbeats."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], deque[tuple[int, Mapping[str, int]]]] = {}

    def take(self, node: NodeStatus, heard_ms: int) -> dict[str, float]:
        """`heard_ms`: when it told its counts. One that went back began anew: no rate of it yet.
        Who is not there has none."""
        told = self._known.setdefault((node.kind, node.nodeId), deque(maxlen=HEARTBEATS))
        if told and any(node.counts.get(name, 0) < count for name, count in told[-1][1].items()):
            told.clear()
        if not told or told[-1][0] < heard_ms:
            told.append((heard_ms, node.counts))
        began, before = told[0]
        seconds = (told[-1][0] - began) / 1000
        if not node.isAlive or seconds <= 0:
            return {}
        return {
            name: round((count - before.get(name, 0)) / seconds, 2)
            for name, count in node.counts.items()
        }

    def keep(self, nodes: set[tuple[str, str]]) -> None:
        """Only those are there still."""
        self._known = {key: value for key, value in self._known.items() if key in nodes}


class Recent:
    """A sum over the last WINDOW_S whole seconds, and over all. Small, as each table has one."""

    __slots__ = ("_newest", "_seconds", "total")

    def __init__(self) -> None:
        self.total = 0
        self._newest = 0
        self._seconds = [0] * SLOTS

    def add(self, amount: int, second: int) -> None:
        self.total += amount
        for passed in range(max(self._newest, second - SLOTS) + 1, second + 1):
            self._seconds[passed % SLOTS] = 0
        self._newest = max(self._newest, second)
        self._seconds[self._newest % SLOTS] += amount

    def per_s(self, second: int) -> float:
        """`second`: the present one, which is not over and does not count."""
        begins = max(second - WINDOW_S, self._newest - SLOTS + 1)
        whole = range(begins, min(second, self._newest + 1))
        return sum(self._seconds[at % SLOTS] for at in whole) / WINDOW_S


class TableRates:
    """Rows of a feed by table: at most TABLES one by one, the rest in one sum."""

    def __init__(self) -> None:
        self._tables: dict[str, Recent] = {}
        self._rest = Recent()
        self._forgotten = False

    def add(self, table: str, rows: int, second: int) -> None:
        known = self._tables.get(table)
        if known is None and len(self._tables) >= TABLES and not self._make_room(second):
            self._forgotten = True
            self._rest.add(rows, second)
            return
        if known is None:
            known = self._tables[table] = Recent()
        known.add(rows, second)

    def _make_room(self, second: int) -> bool:
        """One that nothing was written to of late joins the rest."""
        idle = next((t for t, recent in self._tables.items() if not recent.per_s(second + 1)), None)
        if idle is None:
            return False
        self._forgotten = True
        self._rest.total += self._tables.pop(idle).total
        return True

    def listed(self, second: int) -> tuple[list[TableShown], OtherTables | None]:
        """The busiest, by the rate of late, and what all others come to."""
        shown = [
            TableShown(name, round(recent.per_s(second), 2), recent.total)
            for name, recent in self._tables.items()
        ]
        shown.sort(key=lambda table: (-table.rows_per_s, -table.rows, table.name))
        rest = shown[LISTED:]
        if not rest and not self._rest.total:
            return shown, None
        per_s = sum(table.rows_per_s for table in rest) + self._rest.per_s(second)
        rows = sum(table.rows for table in rest) + self._rest.total
        others = OtherTables(len(rest), round(per_s, 2), rows, self._forgotten)
        return shown[:LISTED], others
