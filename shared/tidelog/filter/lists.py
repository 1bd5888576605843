"""Allow and block lists (appendix A.5): the allow list, if there is one, then the block list."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.filter.patterns import ListPattern
from tidelog.filter.settings import FilterConfig, TableName
from tidelog.schema.tracker import SYSTEM_SCHEMAS

SYSTEM, FILTER = "system", "filter"
"""Reasons under which is counted what the lists drop."""


class _Tables:
    def __init__(self, names: Iterable[TableName], where: str) -> None:
        self._pairs = [
            (ListPattern(one.db_name, where), ListPattern(one.tbl_name, where), one)
            for one in names
        ]

    def find(self, db: str, table: str) -> TableName | None:
        for in_db, in_table, one in self._pairs:
            if in_db.matches(db) and in_table.matches(table):
                return one
        return None

    def in_db(self, db: str) -> bool:
        return any(in_db.matches(db) for in_db, _, _ in self._pairs)

    def __bool__(self) -> bool:
        return bool(self._pairs)


class Lists:
    """Raises ValueError for a wrong pattern."""

    def __init__(self, config: FilterConfig) -> None:
        self._do_dbs = _dbs(config.replicate_do_db, "replicate-do-db")
        self._do_tables = _Tables(config.replicate_do_table, "replicate-do-table")
        self._ignored_dbs = _dbs(config.ignore_schemas, "ignore-schemas")
        self._ignored_tables = _Tables(config.ignore_table, "ignore-table")

    def decide(self, db: str, table: str = "") -> tuple[str, str]:
        """Why a table (or, without a name, the schema itself) is dropped: SYSTEM, FILTER or "",
        and the key that says so.

        A schema in which the allow list names tables is allowed itself: who reads these tables
        needs it. The tables of a block list don't block theirs.
        """
        if not self._allowed(db, table):
            return _reason(db), "neither replicate-do-db nor replicate-do-table names it"
        pattern = next((text for text, one in self._ignored_dbs if one.matches(db)), None)
        if pattern is not None:
            return _reason(db), f"ignore-schemas {pattern!r}"
        blocked = self._ignored_tables.find(db, table) if table else None
        if blocked is not None:
            return FILTER, f"ignore-table {blocked.db_name!r}, {blocked.tbl_name!r}"
        return "", ""

    def _allowed(self, db: str, table: str) -> bool:
        if not self._do_dbs and not self._do_tables:
            return True
        if any(one.matches(db) for _, one in self._do_dbs):
            return True
        if not table:
            return self._do_tables.in_db(db)
        return self._do_tables.find(db, table) is not None


def _dbs(names: Iterable[str], where: str) -> list[tuple[str, ListPattern]]:
    return [(text, ListPattern(text, where)) for text in names]


def _reason(db: str) -> str:
    return SYSTEM if db.lower() in SYSTEM_SCHEMAS else FILTER
