"""Which table an id meant at which schema version, and what each DDL did (design section 8).

Jobs are applied in the order of BinlogInfo.SchemaVersion (appendix B.11), whatever the order they
come in. Per table id the tracker keeps every version, so a mutation is decoded with the newest
TableInfo whose version is at most the mutation's; `prune` lets go of what no reader needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from tidelog.schema import jobs as kinds
from tidelog.schema.errors import UnknownJob, UnknownTable
from tidelog.schema.history import Affected, Schemas, TableAt, renamed_to
from tidelog.schema.model import DdlJob, TableInfo

SYSTEM_SCHEMAS = frozenset(
    ("mysql", "information_schema", "performance_schema", "metrics_schema", "sys", "tidb_binlog")
)

_SETVAL = re.compile(r"\s*select\s+setval\s*\(", re.IGNORECASE)


class DdlOutcome(msgspec.Struct, frozen=True):
    """What a DDL binlog means.

    `kind` is the job type's snake_case name; `db` the schema an unqualified query ran in;
    `affected` in the order the DDL touched them (a RENAME of several tables step by step);
    `system`: a schema of the server itself; `changes_nothing`: rolled back, or the first of the two
    binlogs of DROP COLUMN.
    """

    job_id: int
    kind: str
    db: str
    affected: tuple[Affected, ...]
    schema_version: int
    system: bool
    changes_nothing: bool


def is_setval(query: str) -> bool:
    """`SELECT SETVAL(…)` comes as a DDL binlog whose job is in no history (fixtures README)."""
    return _SETVAL.match(query) is not None


class SchemaTracker:
    """Schema history by version. Not thread-safe; owned by one actor."""

    def __init__(self) -> None:
        self._jobs: dict[int, DdlJob] = {}
        self._schemas = Schemas()
        self._outcomes: dict[int, tuple[Affected, ...]] = {}
        self._touching: dict[int, list[tuple[int, int]]] = {}
        """Per table id, (version, job id) of the jobs that changed it, rising."""
        self._pruned = 0
        self.version = 0
        """The highest schema version applied."""

    def add_jobs(self, jobs: Iterable[DdlJob]) -> None:
        """Apply jobs in any order; a job known already changes nothing, unless its state did.

        A job older than the newest one applied makes the tracker apply all of them again.
        """
        new = [job for job in jobs if self._is_news(job)]
        for job in new:
            self._jobs[job.id] = job
        pending = sorted((j for j in new if changes_schema(j)), key=lambda job: job.version)
        if pending and pending[0].version <= self.version:
            pending = sorted(
                (j for j in self._jobs.values() if changes_schema(j)), key=lambda j: j.version
            )
            self._schemas = Schemas()
            self._outcomes = {}
            self._touching = {}
        for job in pending:
            affected = self._outcomes[job.id] = self._apply(job)
            for table_id in _touched(affected):
                self._touching.setdefault(table_id, []).append((job.version, job.id))
            self.version = max(self.version, job.version)

    def table(self, table_id: int, schema_version: int) -> TableAt:
        """The newest state of a table id at or below a schema version. Raises UnknownTable, also
        when the table was dropped or truncated by then.

        A mutation may be one schema version behind a DDL that the stream has passed. Columns are
        found by id, so decoding with the larger of the two versions is right, and names the
        columns as the readers of the stream know them.
        """
        found = self._schemas.at(table_id, schema_version)
        if found is None:
            raise UnknownTable(table_id, schema_version)
        return found

    def tables(self) -> Iterator[TableAt]:
        """Every version of every table, those of the server's own schemas left out."""
        return (one for one in self._schemas.every() if one.db.lower() not in SYSTEM_SCHEMAS)

    def is_dropped_or_truncated(self, table_id: int, schema_version: int) -> bool:
        """Whether the id belonged to a table that was gone by this version.

        A transaction that began before the DDL may commit after it and still carry the old
        version: ask with the larger of the mutation's version and the last DDL's that the stream
        passed. Such a mutation is discarded and counted by the caller.
        """
        return self._schemas.ended(table_id, schema_version)

    def ddl(self, job_id: int, schema_state: int | None = None) -> DdlOutcome:
        """What the binlog of a job means; `schema_state` is the binlog's ddl_schema_state, which
        tells the two binlogs of DROP COLUMN apart. Raises UnknownJob."""
        job = self._jobs.get(job_id)
        if job is None:
            raise UnknownJob(job_id)
        affected = self._outcomes.get(job_id, ())
        first_of_two = (
            job.type in (kinds.DROP_COLUMN, kinds.DROP_COLUMNS)
            and schema_state == kinds.STATE_DELETE_ONLY
        )
        names = {job.schema_name.lower()} | {one.db.lower() for one in affected}
        return DdlOutcome(
            job_id=job_id,
            kind=kinds.kind_name(job.type),
            db=_session_db(job, affected),
            affected=() if first_of_two else affected,
            schema_version=job.version,
            system=names <= SYSTEM_SCHEMAS,
            changes_nothing=first_of_two or not changes_schema(job),
        )

    def jobs_between(self, table_id: int, after: int, up_to: int) -> list[int]:
        """Ids of the jobs that changed a table at versions in (after, up_to], in their order.

        TiDB sends a DDL's binlog only after its last schema version is in use: mutations of that
        version, with its new columns, come before it. A Drainer that meets one whose table is newer
        than the last DDL it forwarded finds here what to forward first.
        """
        touching = self._touching.get(table_id, [])
        if not touching or touching[-1][0] <= after:
            return []
        return [job_id for version, job_id in touching if after < version <= up_to]

    def prune(self, below: int) -> None:
        """Forget what only mutations and DDLs below schema version `below` could ask for."""
        self._pruned = max(self._pruned, below)
        self._schemas.prune(below)
        gone = [job.id for job in self._jobs.values() if job.version < below]
        for job_id in gone:
            del self._jobs[job_id]
            for table_id in _touched(self._outcomes.pop(job_id, ())):
                kept = [entry for entry in self._touching[table_id] if entry[1] != job_id]
                self._touching[table_id] = kept
                if not kept:
                    del self._touching[table_id]

    def _is_news(self, job: DdlJob) -> bool:
        known = self._jobs.get(job.id)
        if known is not None:
            return known.state != job.state or known.version != job.version
        return job.version >= self._pruned

    def _apply(self, job: DdlJob) -> tuple[Affected, ...]:
        handler = _HANDLERS.get(job.type, _replace)
        return tuple(handler(self._schemas, job))


def changes_schema(job: DdlJob) -> bool:
    """Rolled back jobs (state 3), and version 0 in old releases, change nothing."""
    done = job.state in (kinds.JOB_STATE_DONE, kinds.JOB_STATE_SYNCED)
    return done and job.version > 0


def _touched(affected: tuple[Affected, ...]) -> set[int]:
    states = [state for one in affected for state in (one.before, one.after)]
    return {state.info.id for state in states if state is not None}


def _session_db(job: DdlJob, affected: tuple[Affected, ...]) -> str:
    """The schema that unqualified names of the query mean. A job of a cross-database rename names
    the target's; the source's is meant unless only the target is unqualified."""
    before = affected[0].before if job.type == kinds.RENAME_TABLE and affected else None
    if before is not None and renamed_to(job.query) != [""]:
        return before.db
    return job.schema_name


def _info(job: DdlJob) -> TableInfo | None:
    return job.binlog.table_info if job.binlog is not None else None


def _infos(job: DdlJob) -> tuple[TableInfo, ...]:
    return (job.binlog.table_infos or ()) if job.binlog is not None else ()


def _schema(schemas: Schemas, job: DdlJob) -> list[Affected]:
    """CREATE, ALTER and RECOVER of a schema; the last brings its tables back."""
    db = job.binlog.db_info if job.binlog is not None else None
    name = db.db_name.text if db is not None else job.schema_name
    schemas.name_db(job.schema_id, name)
    if job.type == kinds.RECOVER_SCHEMA:
        return schemas.restore_db(job.schema_id, job.version)
    return []


def _drop_schema(schemas: Schemas, job: DdlJob) -> list[Affected]:
    return schemas.drop_db(job.schema_id, job.version)


def _create(schemas: Schemas, job: DdlJob) -> list[Affected]:
    """One new object, or several in a batch. CREATE OR REPLACE VIEW ends the view it replaces."""
    infos = _infos(job) if job.type == kinds.CREATE_TABLES else ()
    one = _info(job)
    if not infos and one is not None:
        infos = (one,)
    schemas.learn_db(job.schema_id, job.schema_name)
    affected: list[Affected] = []
    for info in infos:
        before = schemas.named(job.schema_id, info.name.lower)
        if before is not None and before.info.id != info.id:
            schemas.end(before.info.id, job.version)
        after = schemas.put(job.schema_id, info, job.version)
        affected.append(Affected(after.db, before, after))
    return affected


def _drop(schemas: Schemas, job: DdlJob) -> list[Affected]:
    before = schemas.end(job.table_id, job.version)
    return [Affected(before.db, before, None)] if before is not None else []


def _replace(schemas: Schemas, job: DdlJob) -> list[Affected]:
    """Every DDL that leaves one table behind. Where its id is new (TRUNCATE, a change of the
    partitioning) the old id ends. Jobs without a TableInfo (placement policies, locks, resource
    groups) touch no table."""
    info = _info(job)
    if info is None:
        return []
    before = schemas.current(job.table_id)
    db_id = job.schema_id
    if info.id != job.table_id:
        schemas.end(job.table_id, job.version)
    after = schemas.put(db_id, info, job.version)
    return [Affected(after.db, before, after)]


def _rename(schemas: Schemas, job: DdlJob) -> list[Affected]:
    """RENAME TABLE: schema_id and schema_name are the target's, unqualified names are not."""
    info = _info(job)
    if info is None:
        return []
    schemas.learn_db(job.schema_id, job.schema_name)
    before = schemas.current(info.id)
    after = schemas.put(job.schema_id, info, job.version)
    return [Affected(after.db, before, after)]


def _rename_several(schemas: Schemas, job: DdlJob) -> list[Affected]:
    """RENAME TABLE a TO b, c TO d. The history doesn't keep the target schemas (raw_args is null),
    so a qualified target is read from the query; an unqualified one stays in the job's schema."""
    targets = renamed_to(job.query)
    infos = _infos(job)
    affected: list[Affected] = []
    for at, info in enumerate(infos):
        before = schemas.current(info.id)
        db_id = before.db_id if before is not None else job.schema_id
        if len(targets) == len(infos) and targets[at]:
            db_id = schemas.db_id(targets[at], db_id)
        elif job.schema_id:
            db_id = job.schema_id
        after = schemas.put(db_id, info, job.version)
        affected.append(Affected(after.db, before, after))
    return affected


def _exchange(schemas: Schemas, job: DdlJob) -> list[Affected]:
    """EXCHANGE PARTITION: job.table_id is the plain table's old id, which the partition has now;
    the plain table gets the partition's old id, found in the partitioned table's info before."""
    info = _info(job)
    if info is None:
        return []
    partitioned = schemas.current(info.id)
    plain = schemas.current(job.table_id)
    if partitioned is None or plain is None:
        return _replace(schemas, job)
    gone = partitioned.info.partition_ids - info.partition_ids
    after = schemas.put(partitioned.db_id, info, job.version)
    affected = [Affected(after.db, partitioned, after)]
    for new_id in gone:
        schemas.end(job.table_id, job.version)
        swapped = schemas.put(
            plain.db_id, msgspec.structs.replace(plain.info, id=new_id), job.version
        )
        affected.append(Affected(swapped.db, plain, swapped))
    return affected


_HANDLERS: dict[int, Callable[[Schemas, DdlJob], list[Affected]]] = {
    kinds.CREATE_SCHEMA: _schema,
    kinds.MODIFY_SCHEMA: _schema,
    kinds.RECOVER_SCHEMA: _schema,
    kinds.DROP_SCHEMA: _drop_schema,
    kinds.CREATE_TABLE: _create,
    kinds.CREATE_TABLES: _create,
    kinds.CREATE_VIEW: _create,
    kinds.CREATE_SEQUENCE: _create,
    kinds.RECOVER_TABLE: _create,
    kinds.DROP_TABLE: _drop,
    kinds.DROP_VIEW: _drop,
    kinds.DROP_SEQUENCE: _drop,
    kinds.RENAME_TABLE: _rename,
    kinds.RENAME_TABLES: _rename_several,
    kinds.EXCHANGE_PARTITION: _exchange,
}
