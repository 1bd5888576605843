"""Rows of a segment's chunk, decoded by the structures that a view gives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from tidelog.decode.ddl_filter import IGNORED_TXN
from tidelog.decode.envelope import TidelogTable
from tidelog.decode.errors import Undecodable
from tidelog.errors import InvariantBroken
from tidelog.filter.filters import EVENT_FILTER
from tidelog.filter.loopback import LOOPBACK, has_channel
from tidelog.filter.rows import without
from tidelog.rows.errors import Malformed, RowCorrupt
from tidelog.rows.payload import MutationRows, Payload
from tidelog.rows.table_codec import DELETE, INSERT, UPDATE, TableCodec
from tidelog.schema.history import TableAt
from tidelog.schema.model import TableInfo
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.files.segments import Transactions
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

    def body(self, mutation: MutationRows, commit_ts: int, start_ts: int, seq: int) -> Body | None:
        """Of at most SLICE_ROWS rows; `seq`: those of the transaction before these. Raises
        RowCorrupt."""
        if self._ignored:
            mutation, ignored = without(mutation, self._ignored)
            self._left_out[EVENT_FILTER] += ignored
        events, _ = self._envelope.events(mutation, self._own_schema, commit_ts, start_ts, 0)
        return Body(self._envelope.message(events)[0], seq, 0, start_ts) if events else None


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
        for commit_ts, start_ts, offset, payload in transactions:
            span = self._spans.of(commit_ts)
            if span is None and not self._spans.ignores(commit_ts):
                continue
            value = transactions.value(offset, payload)
            if value is None:
                continue
            try:
                if span is not None:
                    yield from self._rows(span, commit_ts, start_ts, value)
                elif not value.is_ddl:
                    self._left_out[IGNORED_TXN] += 1
            except (Malformed, RowCorrupt) as error:
                reason = f"{path} at offset {offset}: {error}"
                raise Undecodable(commit_ts, reason, hint=HINT) from error

    def _rows(self, span: Span, commit_ts: int, start_ts: int, value: Payload) -> Iterator[Body]:
        version = value.schema_version
        if span.marks and self._is_echo(span, version, value.mutations):
            self._left_out[LOOPBACK] += 1
            return
        tables, seq = self._of(span), 0
        for mutation in value.mutations:
            table = tables.get((mutation.table_id, version))
            if table is None:
                self._leave_out(span, commit_ts, mutation.table_id, version)
                seq += len(mutation.sequence)
                continue
            for part in sliced(mutation):
                body = table.body(part, commit_ts, start_ts, seq)
                if body is not None:
                    yield body
                seq += len(part.sequence)

    def _leave_out(self, span: Span, commit_ts: int, table_id: int, version: int) -> None:
        why = span.dropped.get(table_id)
        if why is None:
            raise InvariantBroken(
                f"transaction {commit_ts} has rows of table id {table_id} at version {version},"
                " which the plan does not know"
            )
        self._left_out[why] += 1

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


def sliced(mutation: MutationRows) -> Iterable[MutationRows]:
    """The rows in order, SLICE_ROWS at a time. Raises RowCorrupt."""
    return (mutation,) if len(mutation.sequence) <= SLICE_ROWS else _slices(mutation)


def _slices(mutation: MutationRows) -> Iterator[MutationRows]:
    sequence = mutation.sequence
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
