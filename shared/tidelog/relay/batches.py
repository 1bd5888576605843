"""What one marker of a feed's stream closes, on its way through the relay. Bodies stay the bytes
that the stream had: whoever plans the work decodes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from tidelog.changes import DdlMessage, MarkedTxn
from tidelog.schema.structure import TableStructure

TableKey = tuple[str, str, int]
"""Database, table, the table's schema version: what a RowMessage says."""
Structures = Mapping[TableKey, TableStructure]


class Piece(msgspec.Struct, frozen=True):
    """Rows of a batch whose marker has not come, and which is too large to wait for it in memory.
    `number` counts from 0; one with 0 begins the attempt, and gives up what was there of another.
    `rows` are bodies of whole RowMessages, `tables` those they name."""

    attempt: str
    number: int
    rows: list[bytes]
    tables: frozenset[TableKey]


class Whole(msgspec.Struct, frozen=True):
    """A batch whose marker has come. With `pieces` its rows came before it, else they are here.
    `after`: the position before it; what it has at or below that was in other batches."""

    attempt: str
    commit_ts: int
    after: int
    marker: bytes
    txns: list[MarkedTxn]
    rows: list[bytes]
    ddls: list[bytes]
    tables: frozenset[TableKey]
    pieces: int = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.rows)) + sum(map(len, self.ddls)) + len(self.marker)


Incoming = Piece | Whole


class Batch(msgspec.Struct, frozen=True):
    """One or more whole upstream transactions, or one DDL. After it everything with commit_ts <=
    `commit_ts` has been seen: a position.

    Events with commit_ts <= `after` are to be left out: after a refill a batch may be cut otherwise
    than before. `txns` are only those above it. `rows` are bodies of RowMessages (JSON) in commit
    order within a table; `structures` has at least the tables they name. `ddls` come before `rows`.
    `size`: bytes of all bodies.
    """

    commit_ts: int
    after: int
    txns: list[MarkedTxn]
    rows: list[bytes]
    ddls: list[DdlMessage]
    structures: Structures
    size: int


class LargeBatch(msgspec.Struct, frozen=True):
    """As Batch; its rows are read from the disk, as often as `pieces` is asked, until the log is
    purged up to its commit_ts."""

    commit_ts: int
    after: int
    txns: list[MarkedTxn]
    ddls: list[DdlMessage]
    structures: Structures
    size: int
    read: Callable[[], AsyncIterator[list[bytes]]]

    def pieces(self) -> AsyncIterator[list[bytes]]:
        """Bodies of RowMessages in commit order within a table, about PIECE_BYTES at a time.
        Raises Corrupt."""
        return self.read()


Handed = Batch | LargeBatch

_DDL = msgspec.json.Decoder(DdlMessage)


def ddls_of(bodies: Sequence[bytes]) -> list[DdlMessage]:
    """Raises msgspec.DecodeError."""
    return [_DDL.decode(body) for body in bodies]


def above(txns: list[MarkedTxn], after: int) -> list[MarkedTxn]:
    """Those a reader at `after` has not seen."""
    return txns if txns[0].commit_ts > after else [txn for txn in txns if txn.commit_ts > after]


def small(whole: Whole, structures: Structures) -> Batch:
    """One whose rows are in hand."""
    return Batch(
        whole.commit_ts,
        whole.after,
        above(whole.txns, whole.after),
        whole.rows,
        ddls_of(whole.ddls),
        structures,
        whole.size,
    )
