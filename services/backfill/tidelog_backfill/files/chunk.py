"""Parts of files that tasks read, and what is told of them. All of it travels as msgpack."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Literal

import msgspec

from tidelog.skipped import Skipped

Kind = Literal["segment", "relay", "pb"]
"""A Pump's value log (ours or the original's), an Applier's relay log, or `pb_binlog` files."""


UNDECIDED = -1
"""In the place of a commit_ts: the log has neither Commit nor Rollback."""


class Chunk(msgspec.Struct, frozen=True):
    """The records of `path` that begin at an offset in [begin, end). `limit`: where the file's
    records end (a footer, or what a crash left half written, lies behind); 0 = at `end`. A
    transaction of a Pump belongs to the chunk of its Prewrite, wherever its Commit is.

    `exact`: a record begins at `begin`, or would but for damage. Otherwise the first one is a
    guess: what looks like a record within a row's value is taken for one. `cuts`: offsets of some
    more of its records, rising. `verdicts`: (start_ts, commit_ts, 0 = rolled back, or UNDECIDED) of
    Prewrites whose verdict is not near behind them; they count before any other. `again`: offsets,
    [begin, end), rising, of what is passed over: in a pb file what a drainer wrote a second time
    when it began again from its savepoint, perhaps behind a rotation; in a segment transactions
    that another chunk shows (`files.held`)."""

    kind: Kind
    path: str
    begin: int
    end: int
    limit: int = 0
    exact: bool = False
    cuts: tuple[int, ...] = ()
    verdicts: tuple[tuple[int, int], ...] = ()
    again: tuple[tuple[int, int], ...] = ()

    def parts(self, size: int) -> Iterator[Chunk]:
        """Of about `size` bytes, as far as it is known where records begin."""
        begin = self.begin
        for cut in self.cuts:
            if cut - begin >= size and cut < self.end:
                yield msgspec.structs.replace(self, begin=begin, end=cut, cuts=())
                begin = cut
        yield msgspec.structs.replace(self, begin=begin, cuts=())

    def passes_over(self, offset: int) -> bool:
        at = bisect_right(self.again, offset, key=itemgetter(0))
        return at > 0 and offset < self.again[at - 1][1]


class Body(msgspec.Struct, frozen=True, gc=False):
    """Row changes of one table as the stream has them: `body` is the JSON of a RowMessage, its
    events in order. All events of a table, of whatever chunk, are in upstream order by (commit_ts,
    `seq` + place among the events of the body). Events with commit_ts <= `after` are left out.
    `start_ts`: of their transaction, 0 where the log does not tell it with each row."""

    body: bytes
    seq: int
    after: int = 0
    start_ts: int = 0


class FoundDdl(msgspec.Struct, frozen=True):
    """A DDL in the log. `payload`: of a relay the JSON of the DdlMessage, else the Binlog.
    `offset`: where it stands in a pb file."""

    commit_ts: int
    start_ts: int
    payload: bytes
    offset: int = 0


class FoundVersion(msgspec.Struct, frozen=True):
    """Rows of a table at a schema version: `table_id` in Pumps' logs, else `db` and `table`. pb
    files tell no versions: those are rows with these `columns` that no DDL of the file parts."""

    version: int
    first_ts: int
    last_ts: int
    rows: int
    table_id: int = 0
    db: str = ""
    table: str = ""
    columns: tuple[str, ...] = ()


class Lack(msgspec.Struct, frozen=True):
    """Transactions that are in no log, as a record of this one says (docs/adr/0011): from the first
    of them to the record itself, which is behind them all. Of some records as one: to the last."""

    first_ts: int
    last_ts: int
    skipped: Skipped


class Run(msgspec.Struct, frozen=True, gc=False):
    """Transactions with rows that follow one another by commit_ts in a chunk, with no DDL of the
    chunk among them, some MiB at most (or one transaction). [begin, end): the offsets between which
    their records begin (of segments: the Prewrites; of a large batch of a relay: its pieces too).
    `size`: bytes of the rows."""

    first_ts: int
    last_ts: int
    rows: int
    size: int
    begin: int
    end: int


class Facts(msgspec.Struct, frozen=True):
    """What one chunk holds, without its rows. Small: it is collected from every chunk.

    `begin` and `end`: offsets of its first record, and of the one that follows its last: there the
    next chunk of the file begins (`files.chain`). `first_ts`, `last_ts`:
    commit_ts of its transactions, 0 where there is none. `size`: bytes of its rows. `structures`:
    JSON of (db, TableStructure) a relay's records carry. `after`: what stands before the first
    batch of a relay's chunk (of a file's first chunk: its header's prev_commit_ts; of pieces: what
    their batch says); `gaps`: (above, up to) what is missing between two of its batches. `open`:
    Prewrites with neither Commit nor Rollback behind them in the log; the first few of them are at
    `open_at`, `open_ts` is the smallest start_ts of all (0 = none is open), `waiting` has all.
    `lone`: (start_ts, commit_ts or 0) of verdicts that no Prewrite of the chunk precedes;
    `starts`: the smallest and the largest start_ts of its Prewrites. `fake_ts`: of a Pump's
    newest fake, behind which nothing older comes. `skipped`: bytes of
    damaged records, passed by on request; `skipped_at`: offset and bytes of the first few. `runs`:
    rising by first_ts, not overlapping. `lacks`: the first few, the rest as one. `opens_ts`:
    commit_ts of a pb file's first record, 0 where there is none; `reached`: the highest in it or
    before it, and how many records have that.
    """

    chunk: Chunk
    begin: int
    end: int
    records: int = 0
    rows: int = 0
    size: int = 0
    first_ts: int = 0
    last_ts: int = 0
    ddls: list[FoundDdl] = []
    versions: list[FoundVersion] = []
    structures: list[tuple[str, bytes]] = []
    after: int = 0
    gaps: list[tuple[int, int]] = []
    open: int = 0
    open_at: list[int] = []
    open_ts: int = 0
    waiting: list[int] = []
    lone: list[tuple[int, int]] = []
    starts: tuple[int, int] = (0, 0)
    fake_ts: int = 0
    skipped: int = 0
    skipped_at: list[tuple[int, int]] = []
    runs: list[Run] = []
    lacks: list[Lack] = []
    opens_ts: int = 0
    reached: tuple[int, int] = (0, 0)
