"""The rigs' transactions: small ones, some over several tables, some with a row larger than a
message, some of more messages than one atomic batch holds, and DDLs between them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping

import msgspec

from tests.integration.drainer.ledger import Ledger, Row, RowChange, Written
from tests.unit.rows.tables import column, int_key_table
from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import DiskFull, Unavailable
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus
from tidelog.pump_client import PumpClient
from tidelog.real.clock import RealClock
from tidelog.rows.table_codec import TableCodec
from tidelog.schema import jobs
from tidelog.schema.model import DBInfo, DdlJob, HistoryInfo, Name, TableInfo
from tidelog.workload.timestamps import fresh
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite, PrewriteValue, TableMutation

CLUSTER, DATABASE, SCHEMA_ID = "default", "shop", 90
TABLES = 6
OWN = 16
"""Tables that DDLs widen in turn: a row of one holds a thousand columns, and no more."""
WIDE = 1010
"""A large transaction writes a row of so many tables: as many messages and a marker, more than an
atomic batch has (1000)."""
CLIENTS = 6
MOST_BEHIND = 400
KINDS = {"small": 70, "several": 20, "fragments": 4, "large": 1, "ddl": 5}
INSERT, UPDATE, DELETE = 0, 1, 4
AGAIN_S = 0.2
LATER = 10_000 << 18
"""A job's FinishedTS is never below the commit_ts of its binlog."""


class Table:
    """One table as its clients know it."""

    def __init__(self, table_id: int, name: str) -> None:
        self.id, self.name = table_id, name
        self.columns = 2
        self.shape()

    def shape(self) -> None:
        more = (column(at, f"c{at}", 8) for at in range(2, self.columns))
        whole = int_key_table(column(1, "body", 252, charset="utf8mb4", flen=1 << 24), *more)
        self.info: TableInfo = msgspec.structs.replace(
            whole, id=self.id, name=Name(self.name, self.name)
        )
        self.codec = TableCodec(self.info)

    def row(self, number: int, body: str) -> Row:
        row: Row = {"id": number, "body": body}
        row.update((f"c{at}", number * at) for at in range(2, self.columns))
        return row


def changed(table: Table, changes: list[RowChange]) -> TableMutation:
    made = TableMutation(table_id=table.id)
    for _, before, after in changes:
        if before is None and after is not None:
            made.inserted_rows.append(table.codec.encode_insert(after, None))
            made.sequence.append(INSERT)  # type: ignore[arg-type]
        elif before is not None and after is not None:
            made.updated_rows.append(table.codec.encode_update(before, after, None))
            made.sequence.append(UPDATE)  # type: ignore[arg-type]
        elif before is not None:
            made.deleted_rows.append(table.codec.encode_delete(before, None))
            made.sequence.append(DELETE)  # type: ignore[arg-type]
    return made


class Load:
    """`rate` transactions a second, by a few clients. The DDLs widen tables of their own."""

    def __init__(
        self,
        bus: Bus,
        client: PumpClient,
        ledger: Ledger,
        *,
        seed: int,
        rate: int,
        kinds: Mapping[str, int] = KINDS,
    ) -> None:
        self._kinds = kinds
        self._client, self._ledger = client, ledger
        self._oracle = RegistryOracle(bus, CLUSTER)
        self._history = EmbeddedHistory(bus, CLUSTER)
        self._rng = random.Random(seed)
        self._pace_s = CLIENTS / rate
        self._stop = asyncio.Event()
        self._version = self._job = 0
        self._tables = [Table(100 + n, f"t{n}") for n in range(TABLES)]
        self._wide = [Table(1000 + n, f"w{n}") for n in range(WIDE if kinds.get("large") else 0)]
        self._own = [Table(200 + n, f"own{n}") for n in range(OWN)]
        self._altering = asyncio.Lock()
        self._rows: dict[tuple[int, str], list[Row]] = {}
        self.progress = asyncio.Event()
        """Set when something was committed."""
        self.large = self.ddls = 0
        self.behind: Callable[[], int] = lambda: 0
        """Transactions that a reader has yet to see: on a slow machine the load waits for it."""

    def stop(self) -> None:
        """`run` ends; it may be called again."""
        self._stop.set()

    async def prepare(self) -> None:
        """The schema as it was before the feed began: no binlog tells of it."""
        db = DBInfo(SCHEMA_ID, Name(DATABASE, DATABASE), "utf8mb4", "utf8mb4_bin")
        await self._append(jobs.CREATE_SCHEMA, "CREATE DATABASE shop", HistoryInfo(db_info=db))
        infos = tuple(t.info for t in (*self._tables, *self._wide, *self._own))
        await self._append(jobs.CREATE_TABLES, "CREATE TABLES", HistoryInfo(table_infos=infos))

    async def _append(self, kind: int, query: str, info: HistoryInfo) -> int:
        self._version, self._job = self._version + 1, self._job + 1
        table = info.table_info
        job = DdlJob(
            self._job,
            kind,
            SCHEMA_ID,
            table.id if table else 0,
            DATABASE,
            table.name.text if table else "",
            query=query,
            binlog=msgspec.structs.replace(info, schema_version=self._version),
        )
        while True:  # the same job again is fine
            try:
                await self._history.append(msgspec.json.encode(job))
            except (Unavailable, DiskFull):
                await asyncio.sleep(AGAIN_S)
            else:
                return job.id

    async def run(self) -> None:
        self._stop.clear()
        async with asyncio.TaskGroup() as group:
            for client in range(CLIENTS):
                group.create_task(self._live(client))

    async def _live(self, client: int) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._stop.is_set():
            due = max(due, loop.time() - 1) + self._pace_s * (0.5 + self._rng.random())
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self.behind() > MOST_BEHIND:
                continue
            kind = self._rng.choices(list(self._kinds), list(self._kinds.values()))[0]
            if kind == "ddl":
                await self._alter()
            else:
                await self._write(self._draw(kind, client))
                self.large += kind == "large"
            self.progress.set()

    async def write_fragments(self) -> None:
        """One with rows larger than a message, now."""
        await self._write(self._draw("fragments", CLIENTS))

    # Transactions

    async def _timestamp(self) -> int:
        """However long the oracle is away."""
        return await fresh(self._oracle, RealClock(), 0)

    def _draw(self, kind: str, client: int) -> dict[Table, list[RowChange]]:
        rng = self._rng
        if kind == "large":
            number = rng.getrandbits(50)
            return {t: [("c", None, t.row(number, t.name))] for t in self._wide}
        count = rng.randint(2, TABLES) if kind == "several" else 1
        found: dict[Table, list[RowChange]] = {}
        for table in rng.sample(self._tables, count):
            size = rng.randint(300_000, 600_000) if kind == "fragments" else rng.randint(0, 60)
            found[table] = [self._change(client, table, size) for _ in range(rng.randint(1, 3))]
        return found

    def _change(self, client: int, table: Table, size: int) -> RowChange:
        """Each client changes rows of its own, so that their changes commit in order."""
        rows = self._rows.setdefault((client, table.name), [])
        body = self._rng.choice("abcdeö汉") * size
        op = self._rng.choice("cud") if rows else "c"
        if op == "c":
            row = table.row(self._rng.getrandbits(50), body)
            rows.append(row)
            return "c", None, row
        before = rows.pop(self._rng.randrange(len(rows)))
        if op == "d":
            return "d", before, None
        after = before | {"body": body}
        rows.append(after)
        return "u", before, after

    async def _write(self, changes: dict[Table, list[RowChange]]) -> None:
        start_ts = await self._timestamp()
        mutations = [changed(table, rows) for table, rows in changes.items()]
        value = PrewriteValue(schema_version=self._version, mutations=mutations)
        written = Written(start_ts, {t.name: rows for t, rows in changes.items()})
        binlog = Binlog(
            tp=Prewrite,
            start_ts=start_ts,
            prewrite_key=b"k",
            prewrite_value=value.SerializeToString(),
        )
        await self._two_phases(binlog, written)

    async def _two_phases(self, binlog: Binlog, written: Written) -> None:
        await self._client.write(binlog)
        commit_ts = await self._timestamp()
        self._ledger.commit(commit_ts, written)
        end = Binlog(tp=Commit, start_ts=written.start_ts, commit_ts=commit_ts)
        end.ddl_query, end.ddl_job_id = binlog.ddl_query, binlog.ddl_job_id
        end.ddl_schema_state = binlog.ddl_schema_state
        await self._client.write(end)

    async def _alter(self) -> None:
        """Rows of these tables are written only between their DDLs."""
        async with self._altering:
            table = self._own[self.ddls % OWN]
            name = f"c{table.columns}"
            table.columns += 1
            table.shape()
            query = f"ALTER TABLE {table.name} ADD COLUMN {name} BIGINT"
            start_ts = await self._timestamp()
            info = HistoryInfo(table_info=table.info, finished_ts=start_ts + LATER)
            job = await self._append(jobs.ADD_COLUMN, query, info)
            binlog = Binlog(
                tp=Prewrite,
                start_ts=start_ts,
                prewrite_key=b"mDDLJobList",
                ddl_query=query.encode(),
                ddl_job_id=job,
                ddl_schema_state=jobs.STATE_PUBLIC,
            )
            await self._two_phases(binlog, Written(start_ts, query=query))
            row = table.row(self._rng.getrandbits(50), name)
            await self._write({table: [("c", None, row)]})
            self.ddls += 1
