"""What a chunk holds: counted and named, without decoding a row."""

from __future__ import annotations

from array import array

import msgspec

from tidelog.changes import MarkedTxn, Marker
from tidelog.payload import committed
from tidelog.relay.batches import above
from tidelog.skipped import Skipped, from_key
from tidelog.subjects import escape
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files import row_texts
from tidelog_backfill.files.chunk import Chunk, Facts, FoundDdl, FoundVersion, Lack
from tidelog_backfill.files.held import Held
from tidelog_backfill.files.lost import few_lacks
from tidelog_backfill.files.pb_survey import pb_survey
from tidelog_backfill.files.records import FEW, LogFile, OnCorrupt, Records, unreadable
from tidelog_backfill.files.relays import Entry, Relay
from tidelog_backfill.files.runs import Piece, runs
from tidelog_backfill.files.segments import Transactions
from tidelog_proto.relay_pb2 import RelayBatch, RelayHeader

_MARKER = msgspec.json.Decoder(Marker)
_Key = tuple[int, str, str, int]
"""Table id, database, table, schema version."""


def survey(chunk: Chunk, *, on_corrupt: OnCorrupt = "stop", held: Held | None = None) -> Facts:
    """The `chunk` of the facts is exact, if its first record is one (`files.chain` sees to that).
    `held` is told what transactions with rows a Pump's chunk has. Raises Corrupt."""
    if chunk.kind == "pb":
        return pb_survey(chunk, on_corrupt)
    with LogFile(chunk.path) as file:
        if chunk.kind == "relay":
            return _relay(Relay(file, chunk, on_corrupt), chunk)
        return _segment(Transactions(file, chunk, on_corrupt), chunk, held)


class _Found:
    """Facts in the making."""

    def __init__(self) -> None:
        self.rows = self.size = self.first_ts = self.last_ts = 0
        self.ddls: list[FoundDdl] = []
        self._lacks: list[Lack] = []
        self._pieces: list[Piece] = []
        self._versions: dict[_Key, tuple[int, int, int]] = {}

    def seen(self, first_ts: int, last_ts: int) -> None:
        if first_ts < self.first_ts or not self.first_ts:
            self.first_ts = first_ts
        if last_ts > self.last_ts:
            self.last_ts = last_ts

    def lack(self, commit_ts: int, skipped: Skipped) -> None:
        self._lacks.append(Lack(min(skipped.from_ts, commit_ts), commit_ts, skipped))

    def piece(self, one: Piece) -> None:
        rows, size = one[2:4]
        if rows:
            self.rows += rows
            self.size += size
            self._pieces.append(one)

    def count(self, key: _Key, first_ts: int, last_ts: int, rows: int) -> None:
        first, last, before = self._versions.get(key, (first_ts, last_ts, 0))
        if first_ts < first:
            first = first_ts
        if last_ts > last:
            last = last_ts
        self._versions[key] = first, last, before + rows

    def facts(self, chunk: Chunk, records: Records) -> Facts:
        """What all kinds have in common."""
        return Facts(
            chunk=msgspec.structs.replace(
                chunk, begin=records.begin, exact=True, cuts=tuple(records.cuts)
            ),
            begin=records.begin,
            end=records.end,
            records=records.count,
            rows=self.rows,
            size=self.size,
            first_ts=self.first_ts,
            last_ts=self.last_ts,
            ddls=self.ddls,
            versions=[
                FoundVersion(version, first, last, rows, table_id, db, table)
                for (table_id, db, table, version), (first, last, rows) in self._versions.items()
            ],
            skipped=records.skipped,
            skipped_at=records.skipped_at,
            runs=runs(self._pieces, (ddl.commit_ts for ddl in self.ddls)),
            lacks=few_lacks(self._lacks),
        )


def _segment(transactions: Transactions, chunk: Chunk, held: Held | None) -> Facts:
    found = _Found()
    places = array("q")
    for commit_ts, start_ts, offset, payload in transactions:
        found.seen(commit_ts, commit_ts)
        value = transactions.value(offset, payload)
        if value is None:
            continue
        if value.is_ddl:  # it says so only if a job or a text is named
            found.ddls.append(FoundDdl(commit_ts, start_ts, committed(payload, commit_ts)))
            continue
        rows = 0
        if not value.mutations and (skipped := from_key(value.key)) is not None:
            found.lack(commit_ts, skipped)
        for mutation in value.mutations:
            key = mutation.table_id, "", "", value.schema_version
            found.count(key, commit_ts, commit_ts, len(mutation.sequence))
            rows += len(mutation.sequence)
        found.piece((commit_ts, commit_ts, rows, len(payload), offset, offset + 1))
        places.extend((commit_ts, start_ts, offset))
    if held is not None:
        held.tell(chunk, places)
    facts = found.facts(chunk, transactions.records)
    waiting = transactions.waiting
    return msgspec.structs.replace(
        facts,
        chunk=msgspec.structs.replace(facts.chunk, verdicts=transactions.far()),
        open=len(waiting),
        open_at=list(waiting.values())[: FEW + 1],
        open_ts=min(waiting, default=0),
        waiting=list(waiting),
        lone=list(transactions.lone.items()),
        starts=transactions.starts,
        fake_ts=transactions.fake_ts,
    )


def _relay(relay: Relay, chunk: Chunk) -> Facts:
    found = _RelayFound()
    for entry in relay:
        try:
            found.add(entry)
        except NOT_READABLE as error:
            what = f"a body of the stream: {error}"
            raise unreadable(chunk.path, entry.offset, what) from error
    facts = found.facts(chunk, relay.records)
    return msgspec.structs.replace(
        facts,
        structures=list(found.structures.values()),
        after=found.after,
        gaps=found.gaps,
    )


class _RelayFound(_Found):
    def __init__(self) -> None:
        super().__init__()
        self.structures: dict[bytes, tuple[str, bytes]] = {}
        self.after = 0
        self.gaps: list[tuple[int, int]] = []
        self._reached = -1
        """commit_ts of the batch before; -1: there was none, nor a header."""

    def add(self, entry: Entry) -> None:
        """Raises msgspec.DecodeError."""
        content = entry.content
        if isinstance(content, RelayHeader):
            self._follows(content.prev_commit_ts, content.prev_commit_ts)
            return
        for table in content.tables:
            self.structures[table.db.encode() + table.structure] = table.db, table.structure
        if isinstance(content, RelayBatch):
            self._follows(content.after, content.commit_ts)
            told = self._batch(content)
            if not self._told_rows(entry, told):
                self._rows(entry)
        else:
            if entry.rows:
                self._follows(entry.after, entry.after)
            self._rows(entry)

    def _follows(self, after: int, reached: int) -> None:
        if self._reached < 0:
            self.after = after
        elif after > self._reached:
            self.gaps.append((self._reached, after))
        self._reached = max(self._reached, reached)

    def _batch(self, batch: RelayBatch) -> list[MarkedTxn]:
        """The transactions of which it is the first to tell."""
        txns = above(_MARKER.decode(batch.marker).txns, batch.after)
        self.seen(txns[0].commit_ts, batch.commit_ts)
        started = {txn.commit_ts: txn.start_ts for txn in txns}
        for body in batch.ddls:
            commit_ts = row_texts.commit_ts_of(body)
            if commit_ts > batch.after:
                self.ddls.append(FoundDdl(commit_ts, started.get(commit_ts, 0), body))
        for txn in txns:
            if isinstance(txn.skipped, Skipped):
                self.lack(txn.commit_ts, txn.skipped)
        return txns

    def _told_rows(self, entry: Entry, txns: list[MarkedTxn]) -> bool:
        """Counts the rows as the batch's marker does, which is far less to read; False: it does not
        tell which version they have, or the batch's rows came before it."""
        heads = {row_texts.head(body) for body in entry.rows}
        tables: dict[str, tuple[int, int, int]] = {}
        for txn in txns:
            for name, rows in txn.tables.items():
                first, _, before = tables.get(name, (txn.commit_ts, 0, 0))
                tables[name] = first, txn.commit_ts, before + rows
        of_heads = {f"{escape(head.db)}.{escape(head.table)}": head for head in heads}
        if not entry.rows or len(of_heads) != len(heads) or of_heads.keys() != tables.keys():
            return False
        for name, (first_ts, last_ts, rows) in tables.items():
            head = of_heads[name]
            self.count((0, head.db, head.table, head.schema_version), first_ts, last_ts, rows)
        first_ts = min(first for first, _, _ in tables.values())
        last_ts = max(last for _, last, _ in tables.values())
        rows = sum(rows for _, _, rows in tables.values())
        size = sum(map(len, entry.rows))
        self.piece((first_ts, last_ts, rows, size, entry.offset, entry.offset + 1))
        return True

    def _rows(self, entry: Entry) -> None:
        first_ts, last_ts, rows, size = entry.commit_ts, 0, 0, 0
        for body in entry.rows:
            message = row_texts.placed(body)
            times = [one.commit_ts for one in message.events if one.commit_ts > entry.after]
            if times:
                key = 0, message.db, message.table, message.schema_version
                self.count(key, times[0], times[-1], len(times))
                first_ts, last_ts = min(first_ts, times[0]), max(last_ts, times[-1])
                rows += len(times)
                size += len(body)
        if rows:
            self.seen(first_ts, last_ts)
        self.piece((first_ts, last_ts, rows, size, entry.offset, entry.offset + 1))
