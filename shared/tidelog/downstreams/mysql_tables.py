"""The tables of a MySQL-speaking downstream as its lanes need them, read once and remembered until
a DDL."""

from __future__ import annotations

from typing import TypeVar

import structlog

from tidelog.changes import DdlMessage
from tidelog.downstream import TableRule
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.present import (
    Place,
    Present,
    read_present,
    read_referenced,
)
from tidelog.downstreams.statements import TableStatements
from tidelog.downstreams.structure_ddl import Flavor
from tidelog.downstreams.writing import writing
from tidelog.errors import Stopped
from tidelog.schema.structure import TableStructure

log = structlog.get_logger()

CACHED_TABLES = 4096
_Version = tuple[str, str, int]
K = TypeVar("K")
V = TypeVar("V")


class MysqlTables:
    """Shared by the control connection and the lanes: whoever needs a table reads it."""

    def __init__(self, flavor: Flavor, where: str) -> None:
        self._flavor = flavor
        self._where = where
        self._present: dict[Place, Present] = {}
        self._referenced: frozenset[Place] | None = None
        self._statements: dict[_Version, TableStatements] = {}
        self._newest: dict[Place, TableStructure] = {}

    async def rule(self, session: MysqlSession, db: str, structure: TableStructure) -> TableRule:
        """Raises Stopped if there is no such table."""
        return (await self._table(session, (db, structure.name))).rule(structure)

    async def statements(
        self, session: MysqlSession, db: str, structure: TableStructure
    ) -> TableStatements:
        """Raises Stopped if there is no such table."""
        version = (db, structure.name, structure.version)
        found = self._statements.get(version)
        if found is None:
            place = (db, structure.name)
            present = await self._table(session, place)
            newest = self._newest.get(place)
            plan = writing(structure, present.columns, newest, present.needing)
            if plan.absent:
                log.warning("columns are not downstream", table=place, columns=plan.absent)
            found = TableStatements(
                *place,
                plan,
                session.max_packet,
                rule=present.rule(structure),
                triggers=present.triggers,
                native_json=self._flavor.product != "mariadb",
                json_equals=self._flavor.json_equals,
            )
            _keep(self._statements, version, found)
        return found

    async def _table(self, session: MysqlSession, place: Place) -> Present:
        found = self._present.get(place)
        if found is None:
            if self._referenced is None:
                self._referenced = await read_referenced(session)
            found = await read_present(session, place, self._referenced)
            if found is None:
                raise Stopped(
                    f"table {place[0]}.{place[1]} does not exist in {self._where}",
                    hint="backfill it, or filter it out of the feed",
                )
            _keep(self._present, place, found)
        return found

    def after_ddl(self, ddl: DdlMessage) -> None:
        """Keeps the newest structures, for transactions that began before their DDL."""
        touched = [one for table in ddl.tables for one in (table.before, table.after) if one]
        referenced = self._referenced
        self.forget()
        if not ddl.kind.startswith("rename") and not any(one.foreign_keys for one in touched):
            self._referenced = referenced
        for table in ddl.tables:
            if table.before is not None:
                self._newest.pop((table.db_before, table.before.name), None)
            if table.after is not None:
                self.know(table.db_after, table.after)

    def know(self, db: str, structure: TableStructure) -> None:
        """As the table is after its last DDL, which ran elsewhere."""
        _keep(self._newest, (db, structure.name), structure)

    def forget(self) -> None:
        """What the server has may be different now."""
        self._present.clear()
        self._statements.clear()
        self._referenced = None


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    if len(cache) >= CACHED_TABLES:
        cache.pop(next(iter(cache)))
    cache[key] = value
