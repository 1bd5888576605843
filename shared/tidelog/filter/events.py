"""Event filters (appendix A.5): named rules of event kinds and SQL patterns, bound to tables."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from tidelog.filter.patterns import regexp
from tidelog.filter.settings import BinlogFilterRule
from tidelog.rows.table_codec import DELETE, INSERT, UPDATE
from tidelog.schema.jobs import KIND_NAMES

ROWS: Mapping[str, int] = {"insert": INSERT, "update": UPDATE, "delete": DELETE}
_KINDS = frozenset(KIND_NAMES.values())
_NOT_ALTER = ("create_", "drop_", "truncate_", "rename_", "recover_", "repair_", "flashback_")
_NO_TABLES = ("modify_schema_", "alter_sequence", "alter_placement_policy", "alter_resource_group")
_ALTER = frozenset(kind for kind in _KINDS if not kind.startswith(_NOT_ALTER + _NO_TABLES)) | {
    kind
    for kind in _KINDS
    if kind.startswith(("drop_", "rename_", "truncate_"))
    and kind.endswith(("column", "columns", "index", "indexes", "key", "partition", "constraint"))
}
"""Kinds of job that are an ALTER TABLE (or what stands for one: CREATE INDEX, DROP INDEX)."""

_GROUPS: Mapping[str, frozenset[str]] = {
    "all": _KINDS | frozenset(ROWS),
    "all ddl": _KINDS,
    "all dml": frozenset(ROWS),
    "none": frozenset(),
    "none ddl": frozenset(),
    "none dml": frozenset(),
    "create database": frozenset(("create_schema",)),
    "alter database": frozenset(("modify_schema_charset", "modify_schema_placement")),
    "drop database": frozenset(("drop_schema",)),
    "create table": frozenset(("create_table", "create_tables")),
    "rename table": frozenset(("rename_table", "rename_tables")),
    "create index": frozenset(("add_index", "add_primary_key")),
    "drop index": frozenset(("drop_index", "drop_indexes", "drop_primary_key")),
    "add column": frozenset(("add_column", "add_columns")),
    "drop column": frozenset(("drop_column", "drop_columns")),
    "alter table": _ALTER,
}
"""The original's names where they mean several kinds; each kind is its own name too."""


class EventRule:
    """One named rule. Raises ValueError for an unknown event or a wrong pattern."""

    def __init__(self, name: str, rule: BinlogFilterRule) -> None:
        self.name = name
        kinds: set[str] = set()
        for text in rule.ignore_event:
            kinds |= _kinds_of(text, f"binlog-filter-rule {name}: ignore-event")
        self._kinds = frozenset(kinds)
        self.rows = frozenset(number for event, number in ROWS.items() if event in kinds)
        """The mutation types that it ignores."""
        where = f"binlog-filter-rule {name}: ignore-sql"
        self._sql: list[re.Pattern[str]] = [regexp(text, where) for text in rule.ignore_sql]

    def ignores(self, kind: str, query: str) -> bool:
        """Whether a DDL is ignored: by its kind, or because a pattern is found in its text."""
        return kind in self._kinds or any(one.search(query) for one in self._sql)


def event_rules(rules: Mapping[str, BinlogFilterRule]) -> dict[str, EventRule]:
    return {name: EventRule(name, rule) for name, rule in rules.items()}


def _kinds_of(text: str, where: str) -> frozenset[str]:
    words = " ".join(text.lower().replace("_", " ").split())
    kind = words.replace(" ", "_")
    if words in _GROUPS:
        return _GROUPS[words]
    if kind in _KINDS or kind in ROWS:
        return frozenset((kind,))
    known = [*_GROUPS, *ROWS, *(one.replace("_", " ") for one in _KINDS)]
    near = difflib.get_close_matches(words, known, n=1, cutoff=0.0)
    raise ValueError(f"{where}: there is no event {text!r}; the nearest is {near[0]!r}")


def named(names: Iterable[str], rules: Mapping[str, EventRule], where: str) -> list[EventRule]:
    """Raises ValueError for a name that no rule has."""
    found: list[EventRule] = []
    for name in names:
        if name not in rules:
            known = ", ".join(sorted(rules)) or "none"
            raise ValueError(f"{where}: there is no binlog-filter-rule {name!r}; known: {known}")
        found.append(rules[name])
    return found
