"""A MariaDB as an upstream: what it commits becomes the binlogs that a TiDB would write.

Row changes keep their transactions and their order; columns are those of the table's newest
structure in the DDL history. Statements go the way of `Writer.ddl`, as `statements.py` has it.
"""

from __future__ import annotations

from msgspec import structs

from tests.acceptance.by_hand import ByHand
from tests.acceptance.upstream.binlog import BinaryLog, Committed, Image, RowChange, Statement
from tests.acceptance.upstream.statements import tell
from tests.servers import MariaDb
from tidelog.pump_client import Writer
from tidelog.pump_client.tables.convert import convert
from tidelog.rows.table_codec import DELETE, INSERT, UPDATE, TableCodec
from tidelog.rows.values import Value
from tidelog.schema.history import TableAt
from tidelog.schema.model import TableInfo
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation

OWN = frozenset(("mysql", "tidb_binlog"))
"""Schemas that are left out: a Drainer drops them in any case, and not all of their statements are
such as Writer.ddl takes."""


class Bridge:
    """`commits`: how many transactions with rows it wrote; `last`: the last commit_ts."""

    def __init__(self, server: MariaDb, writer: Writer) -> None:
        self.commits = 0
        self.last = 0
        self._log = BinaryLog(server)
        self._writer = writer
        self._by_hand = ByHand(writer)
        self._upstream = writer._upstream
        self._codecs: dict[tuple[int, int], TableCodec] = {}
        self._row_id = 0

    async def catch_up(self) -> int:
        """Everything that is committed by now. Returns how much that was."""
        entries = self._log.read()
        for entry in entries:
            match entry:
                case Committed(rows):
                    await self._commit([row for row in rows if row.db not in OWN])
                case Statement():
                    self.last = await tell(self._by_hand, self._writer, entry) or self.last
        return len(entries)

    async def _commit(self, rows: list[RowChange]) -> None:
        if not rows:
            return
        catalog = await self._upstream.catalog()
        mutations: dict[int, TableMutation] = {}
        for row in rows:
            at = catalog.find(row.db, row.table)
            assert at is not None, f"no history tells of {row.db}.{row.table}"
            mutation = mutations.setdefault(at.info.id, TableMutation(table_id=at.info.id))
            self._add(mutation, self._codec(at), row)
        value = PrewriteValue(schema_version=catalog.version, mutations=list(mutations.values()))
        start_ts = await self._upstream.begin()
        prewrite = Binlog(start_ts=start_ts, prewrite_value=value.SerializeToString())
        self.last = await self._upstream.commit(prewrite)
        self.commits += 1

    def _codec(self, at: TableAt) -> TableCodec:
        key = at.info.id, at.version
        if key not in self._codecs:
            self._codecs[key] = TableCodec(at.info)
        return self._codecs[key]

    def _add(self, mutation: TableMutation, codec: TableCodec, row: RowChange) -> None:
        before = _values(codec.table, row.before)
        after = _values(codec.table, row.after)
        if before is None:
            assert after is not None
            self._row_id += 1
            mutation.inserted_rows.append(codec.encode_insert(after, self._row_id))
            mutation.sequence.append(INSERT)  # type: ignore[arg-type]
        elif after is None:
            mutation.deleted_rows.append(codec.encode_delete(before, 0))
            mutation.sequence.append(DELETE)  # type: ignore[arg-type]
        else:
            mutation.updated_rows.append(codec.encode_update(before, after, 0))
            mutation.sequence.append(UPDATE)  # type: ignore[arg-type]


def _values(info: TableInfo, image: Image | None) -> dict[str, Value] | None:
    """In the form of the wire: stored generated columns included, as TiDB has it."""
    if image is None:
        return None
    plain = (structs.replace(c, generated_expr_string="") for c in info.columns if not c.virtual)
    return {column.name.text: convert(column, image.of(column)) for column in plain}
