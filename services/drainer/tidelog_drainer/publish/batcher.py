"""Decoded transactions into atomic batches of messages (design section 5). Pure.

Rows are grouped by table in commit order, cut into messages of at most 256 KiB by events; the
marker is the last message. A transaction above the server's limit goes in several chunks of one
attempt: a reader takes none of them before the marker.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from tidelog import changes, subjects
from tidelog.changes import MESSAGE_BYTES, MarkedTxn, Marker, Watermark, structure_key
from tidelog.decode.envelope import TIDELOG, Envelope
from tidelog.decode.routes import Route
from tidelog.decode.transactions import DdlTxn, LargeTxn, RowTxn
from tidelog.ports import Outgoing
from tidelog.schema.structure import TableStructure

MARKER_BYTES = 512 << 10
"""The marker lists every transaction, and must stay below the server's default message."""
_MARKED_TXN_BYTES = 90
_MARKED_TABLE_BYTES = 12
_LABEL_MAX_BYTES = 1200
"""Two names of 64 characters, of three bytes each, each escaped as three."""

_json = msgspec.json.Encoder().encode


class Contents(msgspec.Struct):
    """What a batch holds, by operation."""

    created: int = 0
    updated: int = 0
    deleted: int = 0
    ddls: int = 0


class Batch(msgspec.Struct):
    """Messages to append, each chunk atomically. `last_ts`: the marker's or watermark's position;
    `covers`: everything at or below is published once the last chunk is. `ended`: keys of the
    structures that its DDLs replaced."""

    attempt: str
    chunks: list[list[Outgoing]]
    last_ts: int
    covers: int
    txns: int = 0
    rows: int = 0
    structures: dict[str, TableStructure] = {}
    ended: list[str] = []
    ops: Contents = msgspec.field(default_factory=Contents)

    @property
    def is_watermark(self) -> bool:
        return not self.txns


class _Block:
    """The open message of one table."""

    __slots__ = ("created", "deleted", "events", "first_ts", "last_ts", "route", "size", "updated")

    def __init__(self, route: Route, commit_ts: int) -> None:
        self.route = route
        self.events: list[bytes] = []
        self.size = route.envelope.overhead
        self.first_ts = self.last_ts = commit_ts
        self.created = self.updated = self.deleted = 0


class Batcher:
    """Builds the batches of one feed under one epoch. `epoch` is the header's text."""

    def __init__(
        self,
        feed: str,
        epoch: str,
        *,
        max_messages: int,
        max_bytes: int,
        envelope: Envelope = TIDELOG,
        origin: str = "",
    ) -> None:
        self._feed = feed
        self._epoch = epoch
        self._stamp = {changes.H_EPOCH: epoch, changes.H_ORIGIN: origin}
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._envelope = envelope
        self._attempts = 0
        self._clear()

    def _clear(self) -> None:
        self._blocks: dict[str, _Block] = {}
        self._messages: list[Outgoing] = []
        self._marked: list[MarkedTxn] = []
        self._structures: dict[str, TableStructure] = {}
        self._ended: list[str] = []
        self._attempt = ""
        self._beside_marker = 0
        self._taken = 0
        self._bytes = self._marker_bytes = self._rows = 0
        self._ops = Contents()

    @property
    def empty(self) -> bool:
        return not self._marked

    def takes(self, txn: LargeTxn | RowTxn | DdlTxn) -> bool:
        """Whether it may come next: a DDL, a large transaction, or one with early DDLs, is alone in
        its batch, others stay within a batch's limits."""
        if self.empty:
            return True
        return isinstance(txn, RowTxn) and not txn.ddls and self._fits(txn)

    def _fits(self, txn: RowTxn) -> bool:
        most = len(self._messages) + len(self._blocks) + len(txn.tables) + 1
        most += 2 * (txn.size // MESSAGE_BYTES) + txn.rows // self._envelope.per_message
        return (
            most < self._max_messages
            and self._bytes + txn.size <= self._max_bytes
            and self._marker_bytes + len(txn.tables) * _LABEL_MAX_BYTES < MARKER_BYTES
        )

    def add(self, txn: RowTxn) -> None:
        """Add a transaction's rows to the messages of their tables."""
        self._open()
        counts: dict[str, int] = {}
        self._marker_bytes += _MARKED_TXN_BYTES
        for table in txn.tables:
            route = table.route
            label = route.label
            if label not in counts:
                counts[label] = 0
                self._marker_bytes += len(label) + _MARKED_TABLE_BYTES
            counts[label] += len(table.events)
            block = self._blocks.get(label)
            if block is None or block.route is not route:
                if block is not None:
                    self._close(block)
                block = self._blocks[label] = self._new_block(route, txn.commit_ts)
            size = block.size + sum(map(len, table.events)) + len(table.events)
            count = len(block.events) + len(table.events)
            if size <= MESSAGE_BYTES and count <= self._envelope.per_message:
                block.events += table.events
                block.size = size
                block.last_ts = txn.commit_ts
                block.created += table.ops[0]
                block.updated += table.ops[1]
                block.deleted += table.ops[2]
            else:
                self._add_slowly(block, table.events, txn.commit_ts)
        skipped = UNSET if txn.skipped is None else txn.skipped
        self._marked.append(MarkedTxn(txn.commit_ts, txn.start_ts, txn.rows, counts, skipped))
        if txn.skipped is not None:
            self._marker_bytes += txn.size
        self._rows += txn.rows
        self._bytes += txn.size

    def _new_block(self, route: Route, commit_ts: int) -> _Block:
        self._structures[structure_key(route.db, route.structure)] = route.structure
        return _Block(route, commit_ts)

    def _add_slowly(self, block: _Block, events: list[bytes], commit_ts: int) -> None:
        """Event by event, closing messages that are full."""
        envelope = block.route.envelope
        for event in events:
            full = len(block.events) >= self._envelope.per_message
            if block.events and (full or block.size + len(event) + 1 > MESSAGE_BYTES):
                self._close(block)
                block = self._blocks[block.route.label] = _Block(block.route, commit_ts)
            block.events.append(event)
            block.size += len(event) + 1
            block.last_ts = commit_ts
            op = envelope.op(event)
            block.created += op == b"c"
            block.updated += op == b"u"
            block.deleted += op == b"d"

    def _close(self, block: _Block) -> None:
        self._ops.created += block.created
        self._ops.updated += block.updated
        self._ops.deleted += block.deleted
        body, own = block.route.envelope.message(block.events)
        headers = {
            changes.H_FIRST_TS: str(block.first_ts),
            changes.H_LAST_TS: str(block.last_ts),
            changes.H_OPS: f"c={block.created},u={block.updated},d={block.deleted}",
            **own,
        }
        self._emit(block.route.subject, body, headers)

    def _emit(self, subject: str, body: bytes, headers: dict[str, str]) -> None:
        """Append a message, in fragments if its body is too large for one."""
        pieces = [body]
        if len(body) > MESSAGE_BYTES:
            pieces = [body[i : i + MESSAGE_BYTES] for i in range(0, len(body), MESSAGE_BYTES)]
        for i, piece in enumerate(pieces):
            own = headers | {
                changes.H_ATTEMPT: self._attempt,
                changes.H_INDEX: str(self._taken + len(self._messages)),
                **self._stamp,
            }
            if len(pieces) > 1:
                own[changes.H_FRAGMENT] = f"{i}/{len(pieces)}"
            self._messages.append(Outgoing(subject, piece, own))

    def _open(self) -> None:
        if not self._attempt:
            self._attempts += 1
            self._attempt = f"{self._epoch}-{self._attempts}"

    def finish(self, prev_commit_ts: int, covers: int) -> Batch:
        """Close the batch: the open messages of all tables, then the marker."""
        for block in self._blocks.values():
            self._close(block)
        return self._seal(prev_commit_ts, covers)

    def ddl(self, txn: DdlTxn, prev_commit_ts: int) -> Batch:
        """A DDL, alone in its batch."""
        assert self.empty
        self._open()
        self._add_ddl(txn)
        self._marked.append(MarkedTxn(txn.commit_ts, txn.start_ts, 0))
        return self._seal(prev_commit_ts, txn.commit_ts)

    def early(self, txn: RowTxn, prev_commit_ts: int) -> Batch:
        """A transaction behind the DDLs it needs, alone in its batch.

        Where it takes several chunks they go after its rows, in the chunk of the marker: a DDL of
        an attempt that was given up must not look published (position.py takes the newest one).
        """
        batch = self._early(txn, prev_commit_ts, ddls_first=True)
        if len(batch.chunks) > 1:
            batch = self._early(txn, prev_commit_ts, ddls_first=False)
        return batch

    def _early(self, txn: RowTxn, prev_commit_ts: int, *, ddls_first: bool) -> Batch:
        assert self.empty
        self._open()
        if ddls_first:
            for ddl in txn.ddls:
                self._add_ddl(ddl)
        self.add(txn)
        for block in self._blocks.values():
            self._close(block)
        if not ddls_first:
            rows = len(self._messages)
            for ddl in txn.ddls:
                self._add_ddl(ddl)
            self._beside_marker = len(self._messages) - rows
        return self._seal(prev_commit_ts, txn.commit_ts)

    def _add_ddl(self, ddl: DdlTxn) -> None:
        self._ops.ddls += 1
        ts = str(ddl.commit_ts)
        headers = {
            changes.H_FIRST_TS: ts,
            changes.H_LAST_TS: ts,
            changes.H_SCHEMA_VERSION: str(ddl.message.schema_version),
            **self._envelope.headers,
        }
        if ddl.outstanding:
            headers[changes.H_EARLY] = ",".join(map(str, ddl.outstanding))
        if ddl.behind or ddl.highest > ddl.message.schema_version:
            headers[changes.H_PASSED] = ",".join(map(str, (ddl.highest, *ddl.behind)))
        self._emit(ddl.subject, self._envelope.ddl(ddl.message), headers)
        self._structures.update(ddl.structures)
        for one in ddl.message.tables:
            if one.before is not None:
                self._ended.append(structure_key(one.db_before, one.before))

    def _seal(self, prev_commit_ts: int, covers: int) -> Batch:
        marked, count = self._marked, self._taken + len(self._messages)
        last_ts = marked[-1].commit_ts
        marker = Marker(self._attempt, count, prev_commit_ts, marked)
        self._messages.append(
            self._mark(
                subjects.changes_txn(self._feed), _json(marker), marked[0].commit_ts, last_ts, count
            )
        )
        batch = Batch(
            self._attempt,
            self._chunks(),
            last_ts,
            covers,
            len(marked),
            self._rows,
            self._structures,
            self._ended,
            self._ops,
        )
        self._clear()
        return batch

    def watermark(self, resolved_ts: int, prev_commit_ts: int) -> Batch:
        """Nothing at or below `resolved_ts` comes any more."""
        assert self.empty
        self._open()
        subject = subjects.changes_watermark(self._feed)
        body = _json(Watermark(resolved_ts, prev_commit_ts))
        message = self._mark(subject, body, resolved_ts, resolved_ts, 0)
        batch = Batch(self._attempt, [[message]], resolved_ts, resolved_ts)
        self._clear()
        return batch

    def _mark(self, subject: str, body: bytes, first: int, last: int, index: int) -> Outgoing:
        headers = {
            changes.H_FIRST_TS: str(first),
            changes.H_LAST_TS: str(last),
            changes.H_ATTEMPT: self._attempt,
            changes.H_INDEX: str(index),
            **self._stamp,
        }
        return Outgoing(subject, body, headers)

    def _chunks(self) -> list[list[Outgoing]]:
        """The messages in order, cut where the server's limits ask for it. What belongs beside the
        marker has a chunk with it."""
        last = self._messages[-1 - self._beside_marker :] if self._beside_marker else []
        chunks: list[list[Outgoing]] = [[]]
        size = 0
        for message in self._messages[: len(self._messages) - len(last)]:
            if chunks[-1] and (
                len(chunks[-1]) >= self._max_messages or size + len(message.data) > self._max_bytes
            ):
                chunks.append([])
                size = 0
            chunks[-1].append(message)
            size += len(message.data)
        return [*chunks, last] if last else chunks
