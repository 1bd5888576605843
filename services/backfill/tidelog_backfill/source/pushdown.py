"""Which filters of a query narrow what is read. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tidelog.timestamps import TS_MAX

_PLAIN = re.compile(r"[^.*?\[\]]+")
"""A name that is its own pattern."""


class Window(msgspec.Struct):
    """after_ts < commit_ts <= until_ts; of `db` and `table`, where these are given."""

    after_ts: int = 0
    until_ts: int = TS_MAX
    db: str | None = None
    table: str | None = None

    def names(self) -> tuple[str, ...]:
        """The patterns for that; empty: all tables."""
        if self.db is None and self.table is None:
            return ()
        return (f"{self.db or '*'}.{self.table or '*'}",)

    def narrow(self, filters: Iterable[Filter], *, names: bool) -> Iterator[Filter]:
        """By those that it can; all others are given back, for Spark to evaluate. Those of `names`
        too, which are compared without case here: the columns db and table, if there are any."""
        for one in filters:
            if not self._take_ts(one):
                if names:
                    self._take_name(one)
                yield one

    def _take_ts(self, one: Filter) -> bool:
        match one:
            case GreaterThan(attribute=("commit_ts",), value=int(ts)):
                self.after_ts = max(self.after_ts, ts)
            case GreaterThanOrEqual(attribute=("commit_ts",), value=int(ts)):
                self.after_ts = max(self.after_ts, ts - 1)
            case LessThan(attribute=("commit_ts",), value=int(ts)):
                self.until_ts = min(self.until_ts, ts - 1)
            case LessThanOrEqual(attribute=("commit_ts",), value=int(ts)):
                self.until_ts = min(self.until_ts, ts)
            case EqualTo(attribute=("commit_ts",), value=int(ts)):
                self.after_ts, self.until_ts = max(self.after_ts, ts - 1), min(self.until_ts, ts)
            case IsNotNull(attribute=("commit_ts",)):
                pass  # it never is
            case _:
                return False
        return True

    def _take_name(self, one: Filter) -> None:
        match one:
            case EqualTo(attribute=("db",), value=str(name)) if _PLAIN.fullmatch(name):
                self.db = name
            case EqualTo(attribute=("table",), value=str(name)) if _PLAIN.fullmatch(name):
                self.table = name
