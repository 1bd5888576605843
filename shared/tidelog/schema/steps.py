"""DDL jobs as the tracker keeps them: what they do to the schema, with their tables packed."""

from __future__ import annotations

import msgspec

from tidelog.schema.jobs import JOB_STATE_DONE, JOB_STATE_SYNCED
from tidelog.schema.model import DdlJob
from tidelog.schema.packed import Packed, pack


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`finished_ts`: the DDL's binlog is not above it (fixtures README), or not below it where it
    was `told_before`. `db_name` is that of a created or altered schema."""

    id: int
    type: int
    version: int
    finished_ts: int
    state: int
    schema_id: int
    schema_name: str
    table_id: int
    query: str
    db_name: str = ""
    info: Packed | None = None
    infos: tuple[Packed, ...] = ()
    told_before: bool = False

    @property
    def tables(self) -> tuple[Packed, ...]:
        """Of a job of several tables all of them."""
        return self.infos or ((self.info,) if self.info is not None else ())


def step_of(job: DdlJob, finished_ts: int) -> Step:
    """`finished_ts` for one that doesn't say it."""
    binlog = job.binlog
    db = binlog.db_info if binlog is not None else None
    info = binlog.table_info if binlog is not None else None
    infos = (binlog.table_infos or ()) if binlog is not None else ()
    return Step(
        id=job.id,
        type=job.type,
        version=job.version,
        finished_ts=binlog.finished_ts
        if binlog is not None and binlog.finished_ts
        else finished_ts,
        state=job.state,
        schema_id=job.schema_id,
        schema_name=job.schema_name,
        table_id=job.table_id,
        query=job.query,
        db_name=db.db_name.text if db is not None else "",
        info=pack(info) if info is not None else None,
        infos=tuple(pack(one) for one in infos),
        told_before=binlog is not None and binlog.told_before is True,
    )


def changes_schema(job: DdlJob | Step) -> bool:
    """Rolled back jobs (state 3), and version 0 in old releases, change nothing."""
    return job.state in (JOB_STATE_DONE, JOB_STATE_SYNCED) and job.version > 0
