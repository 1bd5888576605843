"""What each kind of DDL does to the schema (appendix B.11)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tidelog.schema import jobs as kinds
from tidelog.schema.history import Change, Schemas
from tidelog.schema.renames import renames, session_of
from tidelog.schema.steps import Step


def apply(schemas: Schemas, job: Step) -> tuple[Change, ...]:
    """Bring the schemas up to the job's version; what it touched, in its order."""
    return tuple(HANDLERS.get(job.type, replace)(schemas, job))


def _schema(schemas: Schemas, job: Step) -> list[Change]:
    """CREATE, ALTER and RECOVER of a schema; the last brings its tables back."""
    schemas.name_db(job.schema_id, job.db_name or job.schema_name)
    if job.type == kinds.RECOVER_SCHEMA:
        return schemas.restore_db(job.schema_id, job.version)
    return []


def _drop_schema(schemas: Schemas, job: Step) -> list[Change]:
    return schemas.drop_db(job.schema_id, job.version)


def _create(schemas: Schemas, job: Step) -> list[Change]:
    """One new object, or several in a batch. CREATE OR REPLACE VIEW ends the view it replaces."""
    infos = job.infos if job.type == kinds.CREATE_TABLES else ()
    one = job.info
    if not infos and one is not None:
        infos = (one,)
    schemas.learn_db(job.schema_id, job.schema_name)
    affected: list[Change] = []
    for info in infos:
        before = schemas.named(job.schema_id, info.lower)
        if before is not None and before.table.id != info.id:
            schemas.end(before.table.id, job.version)
        after = schemas.put(job.schema_id, info, job.version)
        affected.append(Change(after.db, before, after))
    return affected


def _drop(schemas: Schemas, job: Step) -> list[Change]:
    before = schemas.end(job.table_id, job.version)
    return [Change(before.db, before, None)] if before is not None else []


def replace(schemas: Schemas, job: Step) -> list[Change]:
    """Every DDL that leaves one table behind. Where its id is new (TRUNCATE, a change of the
    partitioning) the old id ends. Jobs without a TableInfo (placement policies, locks, resource
    groups) touch no table."""
    info = job.info
    if info is None:
        return []
    before = schemas.current(job.table_id)
    db_id = job.schema_id
    if info.id != job.table_id:
        schemas.end(job.table_id, job.version)
    after = schemas.put(db_id, info, job.version)
    return [Change(after.db, before, after)]


def _rename(schemas: Schemas, job: Step) -> list[Change]:
    """RENAME TABLE: schema_id and schema_name are the target's, unqualified names are not."""
    info = job.info
    if info is None:
        return []
    schemas.learn_db(job.schema_id, job.schema_name)
    before = schemas.current(info.id)
    after = schemas.put(job.schema_id, info, job.version)
    return [Change(after.db, before, after)]


def _rename_several(schemas: Schemas, job: Step) -> list[Change]:
    """RENAME TABLE a TO b, c TO d. The history doesn't keep the target schemas (raw_args is null),
    so they are read from the query. Where that can't tell, a table stays where it is."""
    pairs = renames(job.query)
    session = session_of(schemas, job)
    affected: list[Change] = []
    for at, info in enumerate(job.infos):
        before = schemas.current(info.id)
        db_id = session or (before.db_id if before is not None else job.schema_id)
        if len(pairs) == len(job.infos) and pairs[at][1]:
            db_id = schemas.db_id(pairs[at][1], db_id)
        after = schemas.put(db_id, info, job.version)
        affected.append(Change(after.db, before, after))
    return affected


def _exchange(schemas: Schemas, job: Step) -> list[Change]:
    """EXCHANGE PARTITION: job.table_id is the plain table's old id, which the partition has now;
    the plain table gets the partition's old id, found in the partitioned table's info before."""
    info = job.info
    if info is None:
        return []
    partitioned = schemas.current(info.id)
    plain = schemas.current(job.table_id)
    if partitioned is None or plain is None:
        return replace(schemas, job)
    gone = set(partitioned.table.partition_ids) - set(info.partition_ids)
    after = schemas.put(partitioned.db_id, info, job.version)
    affected = [Change(after.db, partitioned, after)]
    for new_id in gone:
        schemas.end(job.table_id, job.version)
        swapped = schemas.put(
            plain.db_id, msgspec.structs.replace(plain.table, id=new_id), job.version
        )
        affected.append(Change(swapped.db, plain, swapped))
    return affected


HANDLERS: dict[int, Callable[[Schemas, Step], list[Change]]] = {
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
