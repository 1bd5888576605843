"""Take up a cluster where earlier runs left it: ids, schema versions and databases go on."""

from __future__ import annotations

from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import Unavailable
from tidelog.ports import Clock
from tidelog.schema import jobs
from tidelog.schema.model import DdlJob
from tidelog.workload.source import Source

RETRY_S = 0.3


async def resume(source: Source, history: EmbeddedHistory, clock: Clock) -> None:
    """Read the registry's DDL history, however long it is away. Earlier runs' tables stay as they
    are: they are not this run's, and never compared."""
    last = 0
    while True:
        try:
            async for page in history.jobs(last):
                for job in page:
                    _take(source, job)
                    last = max(last, job.id)
            return
        except Unavailable:
            await clock.sleep(RETRY_S)


def _take(source: Source, job: DdlJob) -> None:
    source.used_id(max(job.id, job.table_id, job.schema_id))
    if job.binlog is not None and job.binlog.table_info is not None:
        source.used_id(job.binlog.table_info.id)
    source.schema_version = max(source.schema_version, job.version)
    if job.type == jobs.CREATE_SCHEMA:
        source.databases[job.schema_name] = job.schema_id
    elif job.type == jobs.DROP_SCHEMA:
        source.databases.pop(job.schema_name, None)
