"""Schema changes and rows that the writers' API does not make, as a TiDB writes them: beside it, on
the same cluster, with its timestamps and its history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tidelog.errors import Refused
from tidelog.pump_client import Writer
from tidelog.pump_client.ddl.parse import parse
from tidelog.pump_client.ddl.plan import plan
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.rows.table_codec import INSERT, TableCodec
from tidelog.schema import jobs
from tidelog.schema.model import (
    DBInfo,
    DdlJob,
    HistoryInfo,
    Name,
    PartitionDefinition,
    PartitionInfo,
    TableInfo,
)
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation

KINDS = {name: number for number, name in jobs.KIND_NAMES.items()}


class ByHand:
    def __init__(self, writer: Writer) -> None:
        self._upstream = writer._upstream
        self._history = writer._changer._history

    async def made(self, create_table: str) -> TableInfo:
        """What a CREATE TABLE would make, for a job that says more."""
        catalog = await self._upstream.catalog()
        change = plan(parse(create_table), catalog, "2026-01-01 00:00:00.000000")
        assert change is not None
        assert change.info is not None
        return change.info

    async def found(self, table: str) -> TableInfo:
        """The newest state of `db.table`."""
        at = (await self._upstream.catalog()).find(*table.split("."))
        assert at is not None
        return at.info

    async def ids(self, count: int) -> list[int]:
        """For tables and partitions of the next job: above its own."""
        first = (await self._upstream.catalog()).next_id + 1
        return list(range(first, first + count))

    async def catalog(self) -> Catalog:
        return await self._upstream.catalog()

    async def job(
        self,
        kind: str,
        db: str,
        query: str,
        info: TableInfo | None = None,
        *,
        table_id: int = 0,
        db_info: DBInfo | None = None,
        state: int = jobs.JOB_STATE_SYNCED,
    ) -> int:
        """A job enters the history. Returns its id."""
        catalog = await self._upstream.catalog()
        schema = catalog.databases.get(db)
        history = HistoryInfo(
            schema_version=catalog.version + 1,
            db_info=db_info,
            table_info=info,
            finished_ts=await self._upstream.oracle.fresh(0),
        )
        number = KINDS.get(kind) or int(kind.removeprefix("unknown_"))
        made = DdlJob(
            id=catalog.next_id,
            type=number,
            schema_id=schema.id if schema is not None else 0,
            table_id=table_id or (info.id if info is not None else 0),
            schema_name=db,
            table_name=info.name.text if info is not None else "",
            state=state,
            query=query,
            binlog=history,
        )
        await self.append(made, catalog.last_job)
        return made.id

    async def append(self, job: DdlJob, after: int) -> None:
        """`after`: the id of the last job before it."""
        await self._history.append(msgspec.json.encode(job), after=after)

    async def binlogs(self, job_id: int, query: str, state: int = jobs.STATE_PUBLIC) -> int:
        """Its pair. Returns the commit_ts."""
        return await self._upstream.commit(
            Binlog(
                start_ts=await self._upstream.begin(),
                ddl_query=query.encode(),
                ddl_job_id=job_id,
                ddl_schema_state=state,
            )
        )

    async def rolled_back(self, job_id: int, query: str) -> None:
        """Its transaction failed after the Prewrite; TiDB tries again later (seed 001)."""

        async def refuse() -> None:
            raise Refused("the job's last transaction fails")

        with pytest.raises(Refused):
            await self._upstream.commit(
                Binlog(
                    start_ts=await self._upstream.begin(),
                    ddl_query=query.encode(),
                    ddl_job_id=job_id,
                    ddl_schema_state=jobs.STATE_PUBLIC,
                ),
                refuse,
            )

    async def ddl(
        self, kind: str, db: str, query: str, info: TableInfo | None = None, *, table_id: int = 0
    ) -> int:
        job_id = await self.job(kind, db, query, info, table_id=table_id)
        gone = kind.startswith("drop_")
        return await self.binlogs(job_id, query, jobs.STATE_NONE if gone else jobs.STATE_PUBLIC)

    async def insert(self, table: str, *rows: Mapping[str, Any]) -> int:
        """Rows of one transaction, of tables that the writers' API refuses, too."""
        info = await self.found(table)
        codec = TableCodec(info)
        mutation = TableMutation(
            table_id=info.id,
            inserted_rows=[codec.encode_insert(row, number) for number, row in enumerate(rows, 1)],
            sequence=[INSERT] * len(rows),  # type: ignore[list-item]
        )
        version = (await self._upstream.catalog()).version
        value = PrewriteValue(schema_version=version, mutations=[mutation])
        start_ts = await self._upstream.begin()
        return await self._upstream.commit(
            Binlog(start_ts=start_ts, prewrite_value=value.SerializeToString())
        )


def ranges(ids: list[int], column: str, *bounds: tuple[str, str]) -> PartitionInfo:
    """`bounds`: the name of each partition, and the SQL of its upper bound."""
    definitions = (
        PartitionDefinition(number, Name(name, name), less_than=(bound,))
        for number, (name, bound) in zip(ids, bounds, strict=True)
    )
    return PartitionInfo(1, f"`{column}`", definitions=tuple(definitions))


def hashed(ids: list[int], column: str) -> PartitionInfo:
    definitions = (PartitionDefinition(one, Name(f"p{at}", f"p{at}")) for at, one in enumerate(ids))
    return PartitionInfo(2, f"`{column}`", definitions=tuple(definitions))
