"""A feed's stream as a Drainer writes it (docs/reading.md), made by hand: batches cut anywhere,
attempts that were given up, a stream that is filled again."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidelog import changes, subjects
from tidelog.changes import DdlMessage, DdlTable, Event, MarkedTxn, Marker, RowMessage, Watermark
from tidelog.ports import Bus, Outgoing, StreamConfig
from tidelog.schema.structure import TableStructure
from tidelog.skipped import Skipped

FEED = "f"
STREAM = subjects.changes_stream(FEED)

Table = tuple[str, str]


class Txn(msgspec.Struct, frozen=True):
    """`rows`: per table, the numbers that its new rows hold. `ddl`: the tables one changes."""

    commit_ts: int
    rows: dict[Table, list[int]] = {}
    ddl: tuple[Table, ...] = ()
    skipped: Skipped | None = None


def label(table: Table) -> str:
    return ".".join(map(subjects.escape, table))


def _ddl(txn: Txn) -> DdlMessage:
    tables = [
        DdlTable("", db, None, TableStructure(id=1, name=name, version=1, columns=()))
        for db, name in txn.ddl
    ]
    return DdlMessage(txn.commit_ts, "create table", "create table", txn.ddl[0][0], 1, None, tables)


class FeedWriter:
    def __init__(
        self, bus: Bus, *, prev: int = 0, message_bytes: int = 400, width: int = 0
    ) -> None:
        self._bus = bus
        self._message_bytes = message_bytes
        self._width = width
        self._attempts = 0
        self.prev = prev

    async def create(self, max_bytes: int = 0) -> None:
        await self._bus.stream_create(
            StreamConfig(STREAM, (f"changes.{FEED}.>",), max_bytes=max_bytes)
        )

    async def batch(self, txns: Sequence[Txn], *, chunk: int = 1000, give_up: bool = False) -> None:
        """`give_up`: die before the last chunk, and publish all again."""
        if give_up:
            for part in self._chunks(self.messages(txns), chunk)[:-1]:
                await self._bus.append(STREAM, part)
        for part in self._chunks(self.messages(txns), chunk):
            await self._bus.append(STREAM, part)
        self.prev = txns[-1].commit_ts

    async def watermark(self, ts: int) -> None:
        body = msgspec.json.encode(Watermark(ts, self.prev))
        headers = {changes.H_FIRST_TS: str(ts), changes.H_LAST_TS: str(ts)}
        await self._bus.append(STREAM, [Outgoing(subjects.changes_watermark(FEED), body, headers)])
        self.prev = ts

    def _chunks(self, messages: list[Outgoing], chunk: int) -> list[list[Outgoing]]:
        return [messages[at : at + chunk] for at in range(0, len(messages), chunk)]

    def messages(self, txns: Sequence[Txn]) -> list[Outgoing]:
        self._attempts += 1
        attempt = f"1:a-{self._attempts}"
        out: list[Outgoing] = []

        def emit(subject: str, body: bytes, headers: dict[str, str]) -> None:
            size = self._message_bytes
            pieces = [body[at : at + size] for at in range(0, len(body), size)]
            for at, piece in enumerate(pieces):
                own = {changes.H_ATTEMPT: attempt, changes.H_INDEX: str(len(out))} | headers
                if len(pieces) > 1:
                    own[changes.H_FRAGMENT] = f"{at}/{len(pieces)}"
                out.append(Outgoing(subject, piece, own))

        for txn in txns:
            if txn.ddl:
                at = {changes.H_FIRST_TS: str(txn.commit_ts), changes.H_LAST_TS: str(txn.commit_ts)}
                emit(subjects.changes_ddl(FEED, *txn.ddl[0]), msgspec.json.encode(_ddl(txn)), at)
        tables = sorted({table for txn in txns for table in txn.rows})
        for table in tables:
            events = [self._event(txn, n) for txn in txns for n in txn.rows.get(table, ())]
            for cut in self._cut(events):
                ends = {changes.H_FIRST_TS: cut[0].commit_ts, changes.H_LAST_TS: cut[-1].commit_ts}
                headers = {name: str(ts) for name, ts in ends.items()}
                headers[changes.H_OPS] = f"c={len(cut)},u=0,d=0"
                body = msgspec.json.encode(RowMessage(table[0], table[1], 1, cut))
                emit(subjects.changes_row(FEED, *table), body, headers)
        marked = [
            MarkedTxn(
                txn.commit_ts,
                txn.commit_ts - 1,
                sum(map(len, txn.rows.values())),
                {label(table): len(rows) for table, rows in txn.rows.items()},
                msgspec.UNSET if txn.skipped is None else txn.skipped,
            )
            for txn in txns
        ]
        marker = msgspec.json.encode(Marker(attempt, len(out), self.prev, marked))
        ends = {changes.H_FIRST_TS: txns[0].commit_ts, changes.H_LAST_TS: txns[-1].commit_ts}
        headers = {name: str(ts) for name, ts in ends.items()}
        headers |= {changes.H_ATTEMPT: attempt, changes.H_INDEX: str(len(out))}
        return [*out, Outgoing(subjects.changes_txn(FEED), marker, headers)]

    def _event(self, txn: Txn, n: int) -> Event:
        return Event("c", txn.commit_ts, {"n": n}, None, {"n": n, "t": "x" * self._width})

    def _cut(self, events: list[Event]) -> list[list[Event]]:
        """Into messages: an event that is too large for one is alone in its own."""
        cuts: list[list[Event]] = []
        room = 0
        for event in events:
            size = len(msgspec.json.encode(event)) + 1
            if not cuts or size > room:
                cuts.append([])
                room = self._message_bytes - 100
            cuts[-1].append(event)
            room -= size
        return cuts
