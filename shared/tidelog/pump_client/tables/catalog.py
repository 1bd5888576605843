"""The newest schema, by name: what the DDL history says so far. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tidelog.errors import Corrupt
from tidelog.pump_client.tables.errors import NoSuchTable
from tidelog.pump_client.tables.table import Table
from tidelog.schema import jobs as kinds
from tidelog.schema.history import TableAt
from tidelog.schema.model import DBInfo, DdlJob, Name
from tidelog.schema.steps import changes_schema
from tidelog.schema.tracker import SchemaTracker
from tidelog.timestamps import TS_MAX

_PART = r"`((?:[^`]|``)+)`|([^`.\s]+)"
_QUALIFIED = re.compile(rf"(?:{_PART})\.(?:{_PART})")


class Catalog:
    """`version` is the schema version, `last_job` the newest job's id, `next_id` an id above all
    that were given to jobs, tables and schemas."""

    def __init__(self) -> None:
        self.version = 0
        self.last_job = 0
        self.next_id = 101
        self.databases: dict[str, DBInfo] = {}
        self._tracker = SchemaTracker()
        self._tables: dict[tuple[str, str], TableAt] = {}
        self._made: dict[int, Table] = {}

    def add(self, jobs: Iterable[DdlJob]) -> None:
        """The jobs after `last_job`, oldest first, as the registry lists them.

        Raises Corrupt when their schema versions do not rise."""
        for job in jobs:
            if changes_schema(job):
                if job.version <= self.version:
                    raise Corrupt(f"DDL job {job.id} has schema version {job.version} again")
                self._tracker.add_jobs((job,))
                self._follow(job)
            self.last_job = max(self.last_job, job.id)
            self.version = max(self.version, job.version)
            self.next_id = max(self.next_id, 1 + _highest_id(job))
        self._tracker.fold(TS_MAX, keep=0)

    def find(self, db: str, name: str) -> TableAt | None:
        """The living table of that name."""
        return self._tables.get((db.lower(), name.lower()))

    def table(self, qualified: str) -> Table:
        """A table to write to, by `db.table`. Raises NoSuchTable, NotWritable."""
        match = _QUALIFIED.fullmatch(qualified)
        if match is None:
            raise NoSuchTable(f"{qualified!r} names no table")
        quoted_db, db, quoted_name, name = match.groups()
        db = (quoted_db or "").replace("``", "`") or db
        name = (quoted_name or "").replace("``", "`") or name
        at = self.find(db, name)
        if at is None:
            raise NoSuchTable(f"there is no table {db}.{name} at schema version {self.version}")
        made = self._made.get(at.info.id)
        if made is None:
            made = self._made[at.info.id] = Table(at)
        return made

    def is_newest(self, table: Table) -> bool:
        """Is it the present version of a living table?"""
        return self._made.get(table.id) is table

    def _follow(self, job: DdlJob) -> None:
        db = job.binlog.db_info if job.binlog is not None else None
        if job.type == kinds.CREATE_SCHEMA:
            name = db.db_name.text if db is not None else job.schema_name
            self.databases[name.lower()] = db or DBInfo(job.schema_id, Name(name, name.lower()))
        elif job.type == kinds.DROP_SCHEMA:
            self.databases.pop(job.schema_name.lower(), None)
        for one in self._tracker.ddl(job.id).affected:
            if one.before is not None:
                self._tables.pop((one.before.db.lower(), one.before.name.lower()), None)
                self._made.pop(one.before.info.id, None)
            if one.after is not None:
                self._tables[one.after.db.lower(), one.after.name.lower()] = one.after


def _highest_id(job: DdlJob) -> int:
    ids = [job.id, job.table_id, job.schema_id]
    if job.binlog is not None:
        infos = [job.binlog.table_info, *(job.binlog.table_infos or ())]
        for info in infos:
            if info is not None:
                ids += [info.id, *info.partition_ids]
    return max(ids)
