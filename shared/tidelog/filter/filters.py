"""Everything the configuration says about one table, asked once for each of its versions."""

from __future__ import annotations

import msgspec

from tidelog.filter import lists, loopback
from tidelog.filter.lists import Lists
from tidelog.filter.rules import TableRules, Target
from tidelog.filter.settings import FilterConfig

MARK = "mark"
EVENT_FILTER = "event_filter"
"""Reasons under which is counted what is dropped, beside those of the lists."""


class Verdict(msgspec.Struct, frozen=True):
    """`reason`: why nothing of the table is published, "" if it is; `why` names the key. Else
    under which names readers find it, and the mutation types that are left out."""

    reason: str
    why: str
    target: Target
    ignored_rows: frozenset[int] = frozenset()


class Filters:
    """Raises ValueError for a configuration that can't be meant."""

    def __init__(self, config: FilterConfig) -> None:
        self._lists = Lists(config)
        self._rules = TableRules(config)
        self.has_routes = self._rules.has_routes
        self._ignored_txns = frozenset(config.ignore_txn_commit_ts)
        self._loopback = config.loopback_control
        self._mark_schema = config.mark_schema.lower()
        self.channel_id = config.channel_id

    def ignores_txn(self, commit_ts: int) -> bool:
        return commit_ts in self._ignored_txns

    def table(self, db: str, table: str) -> Verdict:
        """What becomes of a table; without a name, of the schema itself."""
        target = self._rules.target(db, table)
        if self._loopback and (is_marks := self._marks(db, table)):
            return Verdict(*is_marks, target)
        reason, why = self._lists.decide(db, table)
        rows: set[int] = set()
        for rule in self._rules.events(db, table):
            rows |= rule.rows
        return Verdict(reason, why, target, frozenset(rows))

    def _marks(self, db: str, table: str) -> tuple[str, str] | None:
        """The mark table, its schema as such, and the checkpoints beside it."""
        is_mark = not table or table.lower() == loopback.MARK_TABLE
        if is_mark and db.lower() == self._mark_schema:
            return MARK, "loopback-control: it marks transactions"
        if db.lower() == loopback.CHECKPOINT_SCHEMA:
            return lists.SYSTEM, "loopback-control: checkpoints of the other direction"
        return None

    def event_filter(self, db: str, table: str, kind: str, query: str) -> str:
        """The name of the rule that ignores a DDL of a table (or schema), "" if none does."""
        rules = self._rules.events(db, table)
        return next((rule.name for rule in rules if rule.ignores(kind, query)), "")
