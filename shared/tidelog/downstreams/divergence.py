"""Rows that the downstream did not have as the upstream had them: counted by table, and told now
and then, because one damaged table may have very many."""

from __future__ import annotations

from collections import Counter

import structlog

from tidelog.downstreams import metrics

log = structlog.get_logger()


class Divergences:
    """Of one downstream since it was made."""

    def __init__(self) -> None:
        self._rows: Counter[str] = Counter()
        self._told: dict[str, int] = {}

    def found(self, table: str, rows: int) -> None:
        """Told each time that the table's count has doubled."""
        self._rows[table] += rows
        metrics.UNMATCHED.inc(rows)
        total = self._rows[table]
        if total >= 2 * self._told.get(table, 0):
            self._told[table] = total
            log.error("rows were not downstream as upstream", table=table, rows=total)
