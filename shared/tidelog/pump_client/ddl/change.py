"""What a statement does to the schema: everything a job tells."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog.schema import jobs
from tidelog.schema.model import ColumnInfo, DBInfo, DdlJob, HistoryInfo, IndexInfo, TableInfo


class Change(msgspec.Struct, frozen=True):
    """`type` and `state` as a job has them; `db` is the job's schema (of a rename the target's),
    `info` the table afterwards, `table_id` and `table_name` what it was before."""

    type: int
    db: DBInfo
    table_id: int = 0
    table_name: str = ""
    info: TableInfo | None = None
    state: int = jobs.STATE_PUBLIC

    @property
    def schema_states(self) -> tuple[int, ...]:
        """One pair of binlogs for each (A.2, "DDL flow"): DROP COLUMN has two."""
        if self.type == jobs.DROP_COLUMN:
            return (jobs.STATE_DELETE_ONLY, self.state)
        return (self.state,)

    def job(self, job_id: int, version: int, query: str, now_ts: int) -> DdlJob:
        """The job in TiDB's form; `version` is the schema version before it."""
        is_database = self.type in (jobs.CREATE_SCHEMA, jobs.DROP_SCHEMA)
        return DdlJob(
            id=job_id,
            type=self.type,
            schema_id=self.db.id,
            table_id=self.table_id,
            schema_name=self.db.db_name.text,
            table_name=self.table_name,
            state=jobs.JOB_STATE_SYNCED,
            schema_state=self.state,
            query=query,
            binlog=HistoryInfo(
                schema_version=version + jobs.VERSION_STEPS.get(self.type, 1),
                db_info=self.db if is_database else None,
                table_info=self.info,
                finished_ts=now_ts,
                told_before=True,
            ),
        )


def with_columns(info: TableInfo, columns: Sequence[ColumnInfo]) -> TableInfo:
    """The table with these columns in this order: offsets follow, in the indexes too."""
    offsets = {column.name.lower: at for at, column in enumerate(columns)}
    replace = msgspec.structs.replace
    indexes = tuple(
        replace(
            index,
            idx_cols=tuple(
                replace(part, offset=offsets[part.name.lower]) for part in index.idx_cols
            ),
        )
        for index in info.indexes
    )
    return replace(
        info,
        cols=tuple(replace(column, offset=at) for at, column in enumerate(columns)),
        index_info=indexes or None,
    )


def with_index(info: TableInfo, index: IndexInfo) -> TableInfo:
    return msgspec.structs.replace(info, index_info=(*info.indexes, index))
