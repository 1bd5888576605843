"""A load as an Applier's relay log has it: made by the Drainer's own decoder and batcher, and by
the Applier's own assembler and log, with nothing between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.alone import FEED, Work, batches
from bench.binlogs import prewrite_value
from bench.frames import prepared, version
from bench.shapes import Change, Load, encoded
from bench.tables import DATABASE, SHAPES, BenchTable
from tidelog.changes import DdlMessage, DdlTable, MarkedTxn, Marker
from tidelog.ports import Message
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.relay import RelayLog, Whole
from tidelog.schema.history import TableAt
from tidelog.schema.structure import structure
from tidelog.timestamps import compose
from tidelog.workload.table_kinds import create_query, table_info
from tidelog_applier.read.assembler import BatchAssembler, Moved

DIRECTORY = "relay"
CLUSTER = "bench"
MARK_IDS = 1000
"""Table ids of the tables that DDLs make."""
_json = msgspec.json.encode


class Written(NamedTuple):
    """The position before the load, and behind it."""

    after: int
    end: int
    bytes: int


async def write(data_dir: Path, load: Load, *, ddl_every: int = 0) -> Written:
    """The relay of an Applier whose data directory this is. After each `ddl_every` changes a DDL
    makes a table that has nothing to do with them: all the same nothing may pass it."""
    after = compose(RealClock().wall_ms()) - (1 << 40)
    writing = _Writing(RelayLog(RealDisk(data_dir), DIRECTORY, feed=FEED), after)
    await writing.open()
    for number, stretch in enumerate(_stretches(load.measured, ddl_every)):
        if number:
            await writing.ddl(number)
        await writing.rows(load.table, stretch)
    return writing.close()


def _stretches(transactions: list[list[Change]], rows: int) -> Iterator[Sequence[Sequence[Change]]]:
    """Of so many rows, or a transaction more; 0 = all of them in one."""
    begin = count = 0
    for at, transaction in enumerate(transactions):
        if rows and count >= rows:
            yield transactions[begin:at]
            begin, count = at, 0
        count += len(transaction)
    yield transactions[begin:]


class _Writing:
    """A log that grows by stretches."""

    def __init__(self, log: RelayLog, after: int) -> None:
        self._log = log
        self._after = after
        self._assembler = BatchAssembler(FEED, after)
        self._bytes = 0

    async def open(self) -> None:
        await self._log.open(self._after)

    async def rows(self, table: BenchTable, transactions: Sequence[Sequence[Change]]) -> None:
        first_ts = self._assembler.position + 1
        values = (
            prewrite_value(version([table]), table.info.id, encoded(table, transaction))
            for transaction in transactions
        )
        made = prepared(CLUSTER, ("fed",), first_ts, [table], values, 0)
        for batch in batches(Work(made.history, made.backlog)):
            messages = [
                Message(one.subject, one.data, one.headers)
                for chunk in batch.chunks
                for one in chunk
            ]
            found = self._assembler.feed(messages)
            items = [item for item in found if not isinstance(item, Moved)]
            self._bytes += sum(len(message.data) for message in messages)
            structures = {
                (DATABASE, one.name, one.version): one for one in batch.structures.values()
            }
            await self._log.append(items, structures)

    async def ddl(self, number: int) -> None:
        """Alone in its batch."""
        after = self._assembler.position
        commit_ts = after + 1
        txns = [MarkedTxn(commit_ts, after, 0)]
        message = mark(number, commit_ts)
        marker = _json(Marker(f"ddl-{number}", 1, after, txns))
        texts = [_json(message)]
        whole = Whole(f"ddl-{number}", commit_ts, after, marker, txns, [], texts, frozenset())
        await self._log.append([whole], {})
        self._assembler.position = commit_ts

    def close(self) -> Written:
        self._log.close()
        return Written(self._after, self._assembler.position, self._bytes)


def mark(number: int, commit_ts: int) -> DdlMessage:
    """CREATE TABLE, at the schema version behind those of the load."""
    name, version = f"mark_{number}", 2 + number
    info = table_info(SHAPES[2], MARK_IDS + number, name)
    made = structure(TableAt(DATABASE, name, version, info))
    query = create_query(SHAPES[2], name)
    tables = [DdlTable("", DATABASE, None, made)]
    return DdlMessage(commit_ts, query, "create_table", DATABASE, version, made, tables)
