"""A large transaction in parts: chunks of messages that are appended as they fill. Pure.

All are of one attempt, and the marker is the last message of the last one: a reader takes none of
them before, and throws them away when another attempt follows (design section 5).
"""

from __future__ import annotations

from tidelog.changes import MarkedTxn
from tidelog.decode.transactions import LargeTxn, TableRows
from tidelog.ports import Outgoing
from tidelog.schema.structure import TableStructure
from tidelog_drainer.publish.batcher import Batch, Batcher


class PartsBatcher(Batcher):
    """A batcher that also takes transactions which don't fit memory: `begin`, `add_part` and
    `full_chunk` for each of its slices, `end`."""

    def _clear(self) -> None:
        super()._clear()
        self._large: LargeTxn | None = None
        self._counts: dict[str, int] = {}

    def begin(self, txn: LargeTxn) -> None:
        """It is alone in its batch."""
        assert self.empty
        self._open()
        self._large = txn

    def add_part(self, rows: TableRows) -> None:
        assert self._large is not None
        route, commit_ts = rows.route, self._large.commit_ts
        block = self._blocks.get(route.label)
        if block is None or block.route is not route:
            if block is not None:
                self._close(block)
                del self._blocks[route.label]
            if sum(one.size for one in self._blocks.values()) >= self._max_bytes:
                self._close_all()
            block = self._blocks[route.label] = self._new_block(route, commit_ts)
        self._add_slowly(block, rows.events, commit_ts)
        self._counts[route.label] = self._counts.get(route.label, 0) + len(rows.events)
        self._rows += len(rows.events)

    def full_chunk(self) -> list[Outgoing]:
        """Messages to append now; none as long as a chunk has room."""
        size = 0
        for count, message in enumerate(self._messages):
            size += len(message.data)
            if count and (count >= self._max_messages or size > self._max_bytes):
                chunk, self._messages = self._messages[:count], self._messages[count:]
                self._taken += count
                return chunk
        return []

    @property
    def under_way(self) -> dict[str, int]:
        """How far the large one is, for status; empty while there is none."""
        if self._large is None:
            return {}
        messages = self._taken + len(self._messages)
        return {"commit_ts": self._large.commit_ts, "rows": self._rows, "messages": messages}

    @property
    def structures(self) -> dict[str, TableStructure]:
        """Of all tables whose rows were added."""
        return self._structures

    def end(self, prev_commit_ts: int) -> Batch | None:
        """What is left, and the marker; early DDLs beside it, as a DDL of an attempt that was given
        up must not look published. None: it had no rows and no DDLs."""
        txn = self._large
        assert txn is not None
        if not self._rows and not txn.ddls:
            self._clear()
            return None
        self._close_all()
        rows = len(self._messages)
        for ddl in txn.ddls:
            self._add_ddl(ddl)
        self._beside_marker = len(self._messages) - rows
        self._marked.append(MarkedTxn(txn.commit_ts, txn.start_ts, self._rows, self._counts))
        return self._seal(prev_commit_ts, txn.commit_ts)

    def _close_all(self) -> None:
        for block in self._blocks.values():
            self._close(block)
        self._blocks = {}
