"""A database that only benchmarks need: schema and transactions straight to chosen Pumps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
import msgspec

from bench.binlogs import batches, commit, prewrite, prewrite_value
from bench.frames import Changes
from bench.stage import CLUSTER
from bench.tables import DATABASE, BenchTable
from tidelog.messages import DdlAppend, Empty, decode_reply, encode
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus
from tidelog.schema import jobs
from tidelog.schema.model import DBInfo, DdlJob, HistoryInfo, Name, TableInfo
from tidelog.subjects import pump as pump_subject
from tidelog.subjects import registry
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite
from tidelog_proto.pump_pb2 import WriteBinlogReq, WriteBinlogResp
from tidelog_proto.transport_pb2 import WriteBatchResult

TIMEOUT_S = 30.0
GRPC = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
SCHEMA_ID = 90


class Upstream:
    """Timestamps come from the registry, as many at once as a group of transactions needs."""

    def __init__(self, bus: Bus, pumps: Sequence[str], timeout_s: float = TIMEOUT_S) -> None:
        self._bus = bus
        self._timeout_s = timeout_s
        self._pumps = pumps
        self._oracle = RegistryOracle(bus, CLUSTER)
        self._version = 0
        self._job = 1000

    async def create_database(self) -> None:
        query = f"CREATE DATABASE `{DATABASE}` CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;"
        await self._ddl(jobs.CREATE_SCHEMA, query)

    async def create_table(self, table_id: int, columns: int) -> BenchTable:
        table = BenchTable(table_id, columns)
        await self._ddl(jobs.CREATE_TABLE, table.query, table.info)
        return table

    async def _ddl(self, kind: int, query: str, info: TableInfo | None = None) -> None:
        self._version += 1
        self._job += 1
        schema = DBInfo(SCHEMA_ID, Name(DATABASE, DATABASE), "utf8mb4", "utf8mb4_bin")
        start_ts = await self._oracle.take(1)
        job = DdlJob(
            id=self._job,
            type=kind,
            schema_id=SCHEMA_ID,
            table_id=info.id if info else 0,
            schema_name=DATABASE,
            table_name=info.name.text if info else "",
            query=query,
            binlog=HistoryInfo(
                schema_version=self._version,
                db_info=None if info else schema,
                table_info=info,
                finished_ts=start_ts,
            ),
        )
        body = encode(DdlAppend(msgspec.Raw(msgspec.json.encode(job))))
        answer = await self._bus.request(registry(CLUSTER, "ddl-append"), body, timeout_s=TIMEOUT_S)
        decode_reply(answer.data, Empty)
        binlog = Binlog(
            tp=Prewrite,
            start_ts=start_ts,
            prewrite_key=b"mDDLJobList",
            ddl_query=query.encode(),
            ddl_job_id=job.id,
            ddl_schema_state=jobs.STATE_PUBLIC,
        )
        await self.write(self._pumps[0], [binlog.SerializeToString()])
        binlog.tp = Commit
        binlog.commit_ts = await self._oracle.take(1)
        await self.write(self._pumps[0], [binlog.SerializeToString()])

    async def write(self, pump: str, payloads: Sequence[bytes]) -> None:
        """Until all are acked. Raises if one is refused."""
        for body in batches(0, payloads):
            answer = await self._bus.request(
                pump_subject(CLUSTER, pump, "write"), body, timeout_s=self._timeout_s
            )
            for result in WriteBatchResult.FromString(answer.data).results:
                if result.code:
                    raise RuntimeError(f"{pump}: {result.code}: {result.message}")

    async def transactions(self, table: BenchTable, group: Sequence[Changes]) -> list[int]:
        """Commit a group, its transactions to the Pumps in turn; their commit_ts, ascending."""
        starts = await self._take(len(group))
        prewrites = [
            prewrite(start_ts, prewrite_value(self._version, table.info.id, changes))
            for start_ts, changes in zip(starts, group, strict=True)
        ]
        await self._in_turn(prewrites)
        ends = await self._take(len(group))
        await self._in_turn([commit(s, c) for s, c in zip(starts, ends, strict=True)])
        return ends

    async def transaction(self, table: BenchTable, changes: Changes, pump: str) -> int:
        """One transaction on one Pump; returns its commit_ts when the Commit is acked."""
        start_ts = await self._oracle.take(1)
        value = prewrite_value(self._version, table.info.id, changes)
        await self.write(pump, [prewrite(start_ts, value)])
        commit_ts = await self._oracle.take(1)
        await self.write(pump, [commit(start_ts, commit_ts)])
        return commit_ts

    async def now(self) -> int:
        """A timestamp above every commit_ts so far."""
        return await self._oracle.take(1)

    async def _take(self, count: int) -> list[int]:
        last = await self._oracle.take(count)
        return list(range(last - count + 1, last + 1))

    async def _in_turn(self, payloads: Sequence[bytes]) -> None:
        count = len(self._pumps)
        async with asyncio.TaskGroup() as tasks:
            for at, pump in enumerate(self._pumps):
                tasks.create_task(self.write(pump, payloads[at::count]))


async def write_by_grpc(at: str, payload: bytes) -> None:
    """By gRPC, whatever its size. Raises RuntimeError when it is refused."""
    async with grpc.aio.insecure_channel(at, options=GRPC) as channel:
        call = channel.unary_unary("/binlog.Pump/WriteBinlog", None, None)
        answer = await call(WriteBinlogReq(payload=payload).SerializeToString())
    refused = WriteBinlogResp.FromString(answer).errmsg
    if refused:
        raise RuntimeError(refused)
