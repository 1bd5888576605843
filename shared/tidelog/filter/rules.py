"""Table rules: which tables get which target names and which event filters."""

from __future__ import annotations

from itertools import combinations

import msgspec

from tidelog.filter.events import EventRule, event_rules, named
from tidelog.filter.patterns import Wildcard
from tidelog.filter.settings import FilterConfig, TableMigrateRule


class _Rule:
    def __init__(self, number: int, rule: TableMigrateRule, known: dict[str, EventRule]) -> None:
        self.where = where = f"table-migrate-rule {number}"
        if not rule.source.schema:
            raise ValueError(f"{where}: source.schema is empty; * stands for every schema")
        if rule.target.table and not rule.source.table:
            raise ValueError(f"{where}: a target.table needs a source.table, * for every one")
        self.schema = Wildcard(rule.source.schema, f"{where} source.schema")
        self.table = Wildcard(rule.source.table, f"{where} source.table")
        self.names_tables = bool(rule.source.table)
        self.target = rule.target
        self.routes = bool(rule.target.schema or rule.target.table)
        for name in (rule.target.schema, rule.target.table):
            if set(name) & set("*?["):
                raise ValueError(f"{where}: a target is a name, {name!r} is a pattern")
        tables = rule.source.table or "*"
        self._keeps_names = not rule.target.table and not (
            self.names_tables and self.table.is_literal
        )
        self._target_schema = Wildcard(rule.target.schema or rule.source.schema, where)
        self._target_table = Wildcard(rule.target.table or tables, where)
        self.events = named(rule.binlog_filter_rule, known, where)
        if not self.routes and not self.events:
            raise ValueError(f"{where} has neither a target nor a binlog-filter-rule")

    def matches(self, db: str, table: str) -> bool:
        return self.schema.matches(db) and (not self.names_tables or self.table.matches(table))

    def overlaps(self, other: _Rule) -> bool:
        return self.schema.overlaps(other.schema) and self.table.overlaps(other.table)

    def may_merge(self, other: _Rule) -> bool:
        """Whether a source of each can get one and the same name. (That a table which keeps its
        name has the one which a rule gives to another can't be told from the rules.)"""
        if self._keeps_names != other._keeps_names:
            return False
        schema, table = self._target_schema, self._target_table
        return schema.overlaps(other._target_schema) and table.overlaps(other._target_table)

    def brings_into(self, target: str, db: str) -> bool:
        """Whether tables of another schema than `db` get into the feed's schema `target`."""
        only = self.schema.is_literal and self.schema.matches(db)
        return self.target.schema.lower() == target.lower() and not only

    @property
    def merges(self) -> bool:
        """Whether two of its own sources can get one target name."""
        if self.target.schema and not self.schema.is_literal:
            return True
        return bool(self.target.table) and not self.table.is_literal


class Target(msgspec.Struct, frozen=True):
    """The names under which readers find a table. `merged`: other tables may have the same ones.
    `where` says which rule gave them; empty: none did."""

    db: str
    table: str
    merged: bool = False
    where: str = ""


class TableRules:
    """Raises ValueError: wrong wildcards, unknown names, two routes for one table."""

    def __init__(self, config: FilterConfig) -> None:
        known = event_rules(config.binlog_filter_rule)
        self._rules = [
            _Rule(number, rule, known) for number, rule in enumerate(config.table_migrate_rule, 1)
        ]
        routes = [rule for rule in self._rules if rule.routes]
        self._routes = sorted(routes, key=lambda rule: not rule.names_tables)
        self._merging = {id(rule) for rule in routes if rule.merges}
        for one, other in combinations(routes, 2):
            self._compare(one, other)

    def _compare(self, one: _Rule, other: _Rule) -> None:
        if (
            one.names_tables == other.names_tables
            and one.target != other.target
            and one.overlaps(other)
        ):
            raise ValueError(
                f"{one.where} and {other.where} route the same tables to different targets; a rule"
                " without source.table gives way to one with it"
            )
        if one.may_merge(other):
            self._merging |= {id(one), id(other)}

    @property
    def has_routes(self) -> bool:
        return bool(self._routes)

    def target(self, db: str, table: str) -> Target:
        """What a table (or, without a name, a schema) is called in the feed. A schema is merged
        where tables of another one get into it, too."""
        for rule in self._routes:
            if rule.matches(db, table):
                schema = rule.target.schema or db
                return Target(
                    schema,
                    (rule.target.table or table) if table else "",
                    id(rule) in self._merging or (not table and self._is_shared(schema, db)),
                    rule.where,
                )
        return Target(db, table, not table and self._is_shared(db, db))

    def _is_shared(self, schema: str, db: str) -> bool:
        return any(rule.brings_into(schema, db) for rule in self._routes)

    def events(self, db: str, table: str) -> list[EventRule]:
        """The event filters of a table (or a schema)."""
        return [e for rule in self._rules if rule.matches(db, table) for e in rule.events]
