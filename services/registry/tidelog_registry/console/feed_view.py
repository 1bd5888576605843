"""One feed as the console knows it: positions, rates, tables, DDLs. Pure, bounded."""

from __future__ import annotations

import msgspec

from tidelog.drainer_control import NotedDdls
from tidelog.messages import APPLIER, DRAINER, DRAINER_CONSUMER, Nodes, NodeStatus
from tidelog.subjects import unescape
from tidelog_registry.console.heard import BriefMarker, shown_ddl
from tidelog_registry.console.lags import Heard, Series
from tidelog_registry.console.rates import Recent, TableRates
from tidelog_registry.console.shown import ConsumerShown, DdlShown, FeedShown, Lags

DDLS = 30
CONSUMERS = 32
LEFT_OUT = "dropped."


class FeedView:
    def __init__(self, name: str) -> None:
        self.name = name
        self.series = Series()
        self.published = Heard()
        self._counted_ts = 0
        self._tables = TableRates()
        self._txns, self._rows = Recent(), Recent()
        self._ddls: dict[str, DdlShown] = {}
        self._noted = NotedDdls()
        self._lags = Lags()

    # What is heard

    def marker(self, told: BriefMarker, clock_ms: int, now_ms: int) -> None:
        """A batch that is tried again counts once."""
        second = now_ms // 1000
        for txn in told.txns:
            if txn.commit_ts <= self._counted_ts:
                continue
            self._counted_ts = txn.commit_ts
            self._txns.add(1, second)
            self._rows.add(txn.rows, second)
            for table, rows in txn.tables.items():
                self._tables.add(table, rows, second)
        if told.txns:
            self.reached(told.txns[-1].commit_ts, clock_ms)

    def reached(self, ts: int, clock_ms: int) -> None:
        self.published = self.published.later(Heard(ts, clock_ms))

    def ddl(self, told: DdlShown) -> None:
        """The newest DDLS are kept. What became of one that was changed on its way is known by
        what its Drainer noted."""
        self._ddls[told.commit_ts] = told
        if len(self._ddls) > DDLS:
            del self._ddls[min(self._ddls, key=int)]

    def noted(self, told: NotedDdls) -> None:
        self._noted = told

    # What is shown

    def take(self, lags: Lags, now_ms: int) -> None:
        """The lags of this moment; the rates are taken with them."""
        self._lags = lags
        second = now_ms // 1000
        self.series.add(now_ms, lags, self._txns.per_s(second), self._rows.per_s(second))

    def shown(self, found: Nodes, clock_ms: int, now_ms: int) -> FeedShown:
        second = now_ms // 1000
        tables, others = self._tables.listed(second)
        named = [msgspec.structs.replace(t, name=_table(t.name)) for t in tables]
        left_out, duplicates = self._left_out(found)
        return FeedShown(
            self.name,
            self._lags,
            self._txns.per_s(second),
            self._rows.per_s(second),
            named,
            others,
            self._listed_ddls(),
            self._noted.older,
            left_out,
            duplicates,
            self._consumers(found, clock_ms),
        )

    def _listed_ddls(self) -> list[DdlShown]:
        """Newest first; what its Drainer noted of one says more than the stream does."""
        noted = {
            str(d.commit_ts): shown_ddl(d.commit_ts, d.kind, d.db, d.query, d.why, d.removed)
            for d in self._noted.ddls
        }
        found = sorted((self._ddls | noted).values(), key=lambda ddl: -int(ddl.commit_ts))
        return found[:DDLS]

    def _left_out(self, found: Nodes) -> tuple[dict[str, int], int]:
        """By reason, what the feed's Drainers left out since they began, and the duplicates."""
        left_out: dict[str, int] = {}
        duplicates = 0
        for node in _of(found, DRAINER, self.name):
            duplicates += node.counts.get("duplicates", 0)
            for name, count in node.counts.items():
                if name.startswith(LEFT_OUT):
                    why = name.removeprefix(LEFT_OUT)
                    left_out[why] = left_out.get(why, 0) + count
        return dict(sorted(left_out.items(), key=lambda one: (-one[1], one[0]))), duplicates

    def _consumers(self, found: Nodes, clock_ms: int) -> list[ConsumerShown]:
        """Applications: who is registered and no node of ours."""
        ours = {DRAINER_CONSUMER} | {
            name for n in _of(found, APPLIER, self.name) for name in (n.nodeId, n.standbyOf)
        }
        mine = [c for c in found.consumers if c.feed == self.name and c.name not in ours]
        return [
            ConsumerShown(c.name, str(c.commit_ts), Heard(c.commit_ts, clock_ms).lag_ms(clock_ms))
            for c in sorted(mine, key=lambda c: (c.commit_ts, c.name))[:CONSUMERS]
        ]


def _of(found: Nodes, kind: str, feed: str) -> list[NodeStatus]:
    return [node for node in found.nodes if node.kind == kind and node.feed == feed]


def _table(escaped: str) -> str:
    """For people."""
    return ".".join(unescape(part) for part in escaped.split("."))
