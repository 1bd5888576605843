"""What the Pumps of `bench drain` serve: transactions of one table, spread over them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from crc32c import crc32c

from bench.binlogs import KEY, prewrite_value
from bench.feeder import Backlog, PumpBacklog
from bench.tables import DATABASE, BenchTable
from tidelog.schema import jobs
from tidelog.schema.model import DBInfo, DdlJob, HistoryInfo, Name
from tidelog.subjects import pump as pump_subject
from tidelog_proto.binlog_pb2 import Binlog, Commit
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame

FRAME_BYTES = 512 << 10
SCHEMA_ID, TABLE_ID = 90, 100
DISTINCT = 2000
"""So many rows are encoded; then they come again."""

Changes = Sequence[tuple[str, bytes]]
"""(op c, u or d, encoded row) of one transaction."""
Txn = tuple[int, int, bytes]
"""commit_ts, start_ts, payload: as the Drainer's merge has them."""


class Prepared(NamedTuple):
    """A workload: its history, its transactions in commit order, what each Pump answers."""

    history: list[DdlJob]
    txns: list[Txn]
    rows: int
    backlog: Backlog


def version(tables: Sequence[BenchTable]) -> int:
    """Of the schema, after the database and these."""
    return 1 + len(tables)


def history(tables: Sequence[BenchTable], before_ts: int) -> list[DdlJob]:
    """The database and its tables, older than every transaction."""
    schema = DBInfo(SCHEMA_ID, Name(DATABASE, DATABASE), "utf8mb4", "utf8mb4_bin")
    made: list[tuple[int, DBInfo | None, BenchTable | None]] = [
        (jobs.CREATE_SCHEMA, schema, None),
        *((jobs.CREATE_TABLE, None, table) for table in tables),
    ]
    return [
        DdlJob(
            id=number,
            type=kind,
            schema_id=SCHEMA_ID,
            table_id=table.info.id if table else 0,
            schema_name=DATABASE,
            table_name=table.name if table else "",
            query=table.query if table else f"CREATE DATABASE `{DATABASE}`",
            binlog=HistoryInfo(
                schema_version=number,
                db_info=db,
                table_info=table.info if table else None,
                finished_ts=before_ts - 1,
            ),
        )
        for number, (kind, db, table) in enumerate(made, 1)
    ]


def inserts(tables: Sequence[BenchTable], count: int, rows: int) -> Iterator[bytes]:
    """Prewrite values, each in one table, these in turn: of a few rows, again and again."""
    encoded = [("c", tables[0].insert(number)) for number in range(DISTINCT)] * 2

    @cache
    def value(table_id: int, at: int) -> bytes:
        return prewrite_value(version(tables), table_id, encoded[at : at + rows])

    for number in range(count):
        yield value(tables[number % len(tables)].info.id, number * rows % DISTINCT)


def transactions(first_ts: int, values: Iterable[bytes]) -> Iterator[Txn]:
    for number, value in enumerate(values):
        start_ts, commit_ts = first_ts + 2 * number, first_ts + 2 * number + 1
        payload = Binlog(
            tp=Commit,
            start_ts=start_ts,
            commit_ts=commit_ts,
            prewrite_key=KEY,
            prewrite_value=value,
        )
        yield commit_ts, start_ts, payload.SerializeToString()


def served(subject: str, txns: Sequence[Txn], last_ts: int) -> PumpBacklog:
    """Frames of what one Pump holds; the last one is complete up to `last_ts`."""
    found = PumpBacklog(subject, [], [])
    frame, size = PullFrame(), 0

    def close(resolved_ts: int) -> None:
        nonlocal frame, size
        frame.resolved_ts = frame.high_ts = resolved_ts
        found.frames.append(frame.SerializeToString())
        found.resolved.append(resolved_ts)
        frame, size = PullFrame(), 0

    for commit_ts, start_ts, payload in txns:
        if size + len(payload) > FRAME_BYTES and size:
            close(commit_ts - 1)
        size += len(payload) + 32
        frame.txns.append(
            PulledTxn(
                commit_ts=commit_ts,
                start_ts=start_ts,
                payload=payload,
                total=len(payload),
                crc=crc32c(payload),
            )
        )
    close(last_ts)
    return found


def head(backlog: Backlog, frames: int) -> Backlog:
    """The first so many frames of each Pump."""
    return Backlog(
        [
            PumpBacklog(pump.subject, pump.resolved[:frames], pump.frames[:frames])
            for pump in backlog.pumps
        ]
    )


def prepare(
    cluster: str,
    pumps: Sequence[str],
    first_ts: int,
    columns: int,
    count: int,
    rows: int,
    tables: int = 1,
) -> Prepared:
    """`count` transactions of `rows` inserts each, to the Pumps in turn."""
    made = [BenchTable(TABLE_ID, columns)]
    made += [BenchTable(TABLE_ID + n, columns, f"{made[0].name}_{n}") for n in range(1, tables)]
    return prepared(cluster, pumps, first_ts, made, inserts(made, count, rows), count * rows)


def prepared(
    cluster: str,
    pumps: Sequence[str],
    first_ts: int,
    tables: Sequence[BenchTable],
    values: Iterable[bytes],
    rows: int,
) -> Prepared:
    """A transaction of each prewrite value, to the Pumps in turn; `rows` in all."""
    txns = list(transactions(first_ts, values))
    backlog = Backlog(
        [
            served(pump_subject(cluster, pump, "pull"), txns[at :: len(pumps)], txns[-1][0])
            for at, pump in enumerate(pumps)
        ]
    )
    return Prepared(history(tables, first_ts), txns, rows, backlog)
