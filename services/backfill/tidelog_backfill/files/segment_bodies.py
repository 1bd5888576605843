"""Rows of a segment's chunk, decoded by the structures that a view gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from tidelog.decode.ddl_filter import IGNORED_TXN
from tidelog.decode.envelope import TidelogTable
from tidelog.decode.errors import Undecodable
from tidelog.errors import InvariantBroken
from tidelog.filter.filters import EVENT_FILTER
from tidelog.filter.loopback import LOOPBACK, has_channel
from tidelog.filter.rows import without
from tidelog.rows.errors import Malformed, RowCorrupt
from tidelog.rows.payload import MutationRows, read_payload
from tidelog.rows.table_codec import DELETE, INSERT, UPDATE, TableCodec
from tidelog.schema.history import TableAt
from tidelog.schema.model import TableInfo
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.files.segments import Prewrite, Transactions
from tidelog_backfill.files.spans import Spans
from tidelog_backfill.files.view import Span, TableView

SLICE_ROWS = 4096
"""So many rows of one mutation make a body."""
HINT = "a wrong or incomplete --ddl-history is likely: mend it, and start again"
_INFO = msgspec.json.Decoder(TableInfo)
_Key = tuple[int, int]
"""Table id, schema version of the rows."""


class _Table:
    """How rows of one table id at one version become bodies."""

    def __init__(self, view: TableView, left_out: Counter[str]) -> None:
        table = TableAt(view.db, view.name, view.known_version, _INFO.decode(view.info))
        self._envelope = TidelogTable(view.db, view.name, table)
        self._ignored = view.ignored
        self._left_out = left_out
        self._own_schema = view.version >= view.known_version

    def bodies(
        self, mutation: MutationRows, commit_ts: int, start_ts: int, seq: int
    ) -> Iterator[Body]:
        """`seq`: rows of the transaction before these. Raises RowCorrupt."""
        for part in sliced(mutation):
            wanted = part
            if self._ignored:
                wanted, ignored = without(part, self._ignored)
                self._left_out[EVENT_FILTER] += ignored
            events, _ = self._envelope.events(wanted, self._own_schema, commit_ts, start_ts, 0)
            if events:
                yield Body(self._envelope.message(events)[0], seq, 0, start_ts)
            seq += len(part.sequence)


class SegmentBodies:
    """Of one view. `left_out` counts what is not shown as the Drainer does: transactions, of tables
    mutations, of an event filter rows."""

    def __init__(self, spans: Spans, channel_id: int, left_out: Counter[str]) -> None:
        self._left_out = left_out
        self._spans = spans
        self._channel_id = channel_id
        self._tables: dict[int, dict[_Key, _Table]] = {}
        self._marks: dict[int, dict[_Key, TableCodec]] = {}

    def of(self, path: str, transactions: Transactions) -> Iterator[Body]:
        """Raises Corrupt, Undecodable, InvariantBroken."""
        for commit_ts, prewrite in transactions:
            span = self._spans.of(commit_ts)
            try:
                if span is None:
                    self._count_ignored(commit_ts, prewrite)
                    continue
                yield from self._rows(span, commit_ts, prewrite)
            except (Malformed, RowCorrupt) as error:
                reason = f"{path} at offset {prewrite.offset}: {error}"
                raise Undecodable(commit_ts, reason, hint=HINT) from error

    def _count_ignored(self, commit_ts: int, prewrite: Prewrite) -> None:
        """DDLs are not ignored. Raises Malformed."""
        if self._spans.ignores(commit_ts) and not read_payload(bytes(prewrite.payload)).is_ddl:
            self._left_out[IGNORED_TXN] += 1

    def _rows(self, span: Span, commit_ts: int, prewrite: Prewrite) -> Iterator[Body]:
        value = read_payload(bytes(prewrite.payload))
        version = value.schema_version
        if span.marks and self._is_echo(span, version, value.mutations):
            self._left_out[LOOPBACK] += 1
            return
        tables, seq = self._of(span), 0
        for mutation in value.mutations:
            table = tables.get((mutation.table_id, version))
            if table is not None:
                yield from table.bodies(mutation, commit_ts, prewrite.start_ts, seq)
            elif mutation.table_id in span.dropped:
                self._left_out[span.dropped[mutation.table_id]] += 1
            else:
                raise InvariantBroken(
                    f"transaction {commit_ts} has rows of table id {mutation.table_id} at version"
                    f" {version}, which the plan does not know"
                )
            seq += len(mutation.sequence)

    def _of(self, span: Span) -> dict[_Key, _Table]:
        found = self._tables.get(span.until_ts)
        if found is None:
            found = {
                (one.table_id, one.version): _Table(one, self._left_out) for one in span.tables
            }
            self._tables[span.until_ts] = found
        return found

    def _is_echo(self, span: Span, version: int, mutations: Sequence[MutationRows]) -> bool:
        """Whether the other direction of our channel wrote it."""
        codecs = self._marks.get(span.until_ts)
        if codecs is None:
            codecs = {
                (one.table_id, one.version): TableCodec(_INFO.decode(one.info))
                for one in span.marks
            }
            self._marks[span.until_ts] = codecs
        return any(
            has_channel(codecs[mutation.table_id, version].decode(mutation), self._channel_id)
            for mutation in mutations
            if (mutation.table_id, version) in codecs
        )


def sliced(mutation: MutationRows) -> Iterator[MutationRows]:
    """The rows in order, SLICE_ROWS at a time. Raises RowCorrupt."""
    sequence = mutation.sequence
    if len(sequence) <= SLICE_ROWS:
        yield mutation
        return
    lists = {
        INSERT: mutation.inserted_rows,
        UPDATE: mutation.updated_rows,
        DELETE: mutation.deleted_rows,
    }
    if any(sequence.count(kind) != len(rows) for kind, rows in lists.items()):
        raise RowCorrupt(mutation.table_id, "sequence", -1, "it does not fit the rows")
    taken = dict.fromkeys(lists, 0)
    for at in range(0, len(sequence), SLICE_ROWS):
        part = MutationRows(mutation.table_id)
        part.sequence = sequence[at : at + SLICE_ROWS]
        begins = dict(taken)
        for kind in lists:
            taken[kind] += part.sequence.count(kind)
        part.inserted_rows = lists[INSERT][begins[INSERT] : taken[INSERT]]
        part.updated_rows = lists[UPDATE][begins[UPDATE] : taken[UPDATE]]
        part.deleted_rows = lists[DELETE][begins[DELETE] : taken[DELETE]]
        yield part
