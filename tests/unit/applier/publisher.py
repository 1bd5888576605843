"""What a Drainer leaves in a feed's stream, published by hand."""

from __future__ import annotations

import msgspec

from tests.unit.downstreams.shapes import column, ddl, table
from tidelog import changes, subjects
from tidelog.changes import DdlMessage, Event, MarkedTxn, Marker, RowMessage, Watermark
from tidelog.kv import Bucket
from tidelog.ports import Bus, Outgoing, StreamConfig

FEED = "shop"
T = table("t", column("id", "int(11)"), column("v", "int(11)"), key=("id",), number=10)
_WIDER = table(
    "t",
    *(column("id", "int(11)"), column("v", "int(11)"), column("n", "int(11)", default="7")),
    key=("id",),
    number=10,
    version=2,
)
EARLY = (_WIDER, msgspec.structs.replace(_WIDER, id=12, version=3))
EARLY_ID = 5000
FIRST_VERSION = 1000
"""Above those of structures here: no two DDLs of an upstream have one version."""
BAG = table("bag", column("v", "int(11)"), number=11)


class Publisher:
    """What a Drainer leaves in the stream."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.stream = subjects.changes_stream(FEED)
        self.commit_ts = 0
        self.version = 1
        """Of the tables, as `rows` names it."""

    async def create_stream(self) -> None:
        await self._bus.stream_create(StreamConfig(self.stream, (f"changes.{FEED}.>",)))

    async def begin(self) -> None:
        await self.create_stream()
        bucket = Bucket(self._bus, subjects.schemas_bucket(FEED))
        await bucket.create()
        for one in (T, BAG):
            key = changes.schema_key("d", one.name, one.version)
            await bucket.put(key, msgspec.json.encode(one))
        for one in (T, BAG):
            await self.ddl(ddl("create_table", (None, one)))

    async def ddl(self, message: DdlMessage) -> None:
        commit_ts = self.commit_ts + 1
        version = message.schema_version or FIRST_VERSION + commit_ts
        message = msgspec.structs.replace(message, commit_ts=commit_ts, schema_version=version)
        subject = subjects.changes_ddl(FEED, "d", "t")
        await self._batch(commit_ts, [Outgoing(subject, msgspec.json.encode(message))])

    async def rows(self, **events: list[Event]) -> None:
        """One transaction: events by table, whose commit_ts is filled in."""
        commit_ts = self.commit_ts + 1
        bodies = []
        for name, found in events.items():
            stamped = [msgspec.structs.replace(event, commit_ts=commit_ts) for event in found]
            body = RowMessage("d", name, self.version, stamped)
            subject = subjects.changes_row(FEED, "d", name)
            bodies.append(Outgoing(subject, msgspec.json.encode(body)))
        await self._batch(commit_ts, bodies)

    async def large(self, *, messages: int, rows: int) -> None:
        """One transaction that adds so many rows to `t` with each of its messages."""
        await self._messages("t", [create(key, 0) for key in range(messages * rows)], rows)

    async def bag(self, *, messages: int, rows: int) -> None:
        """The same of `bag`, which has no key."""
        added = [Event("c", 0, None, None, {"v": value}) for value in range(messages * rows)]
        await self._messages("bag", added, rows)

    async def _messages(self, table: str, events: list[Event], rows: int) -> None:
        """One transaction, so many events to a message."""
        commit_ts, subject = self.commit_ts + 1, subjects.changes_row(FEED, "d", table)
        stamped = [msgspec.structs.replace(event, commit_ts=commit_ts) for event in events]
        bodies = [
            RowMessage("d", table, 1, stamped[at : at + rows])
            for at in range(0, len(stamped), rows)
        ]
        await self._batch(commit_ts, [Outgoing(subject, msgspec.json.encode(b)) for b in bodies])

    async def together(self, *txns: dict[str, list[Event]]) -> None:
        """Transactions in one batch, each as in `rows`: one message for each table, as a Drainer
        puts them."""
        first = self.commit_ts + 1
        tables: dict[str, list[Event]] = {}
        for commit_ts, events in enumerate(txns, first):
            for name, found in events.items():
                stamped = [msgspec.structs.replace(event, commit_ts=commit_ts) for event in found]
                tables.setdefault(name, []).extend(stamped)
        bodies = [
            Outgoing(
                subjects.changes_row(FEED, "d", name),
                msgspec.json.encode(RowMessage("d", name, 1, events)),
            )
            for name, events in tables.items()
        ]
        last = first + len(txns) - 1
        await self._batch(last, bodies, [MarkedTxn(ts, ts, 1) for ts in range(first, last + 1)])

    async def rows_and_rubbish(self, *transaction: list[Event]) -> None:
        """A message for each of these, then one that can't be read."""
        subject, commit_ts = subjects.changes_row(FEED, "d", "t"), self.commit_ts + 1
        bodies = []
        for events in transaction:
            stamped = [msgspec.structs.replace(event, commit_ts=commit_ts) for event in events]
            bodies.append(msgspec.json.encode(RowMessage("d", "t", 1, stamped)))
        bodies.append(b'{"db":"d","table":"t","schema_version":1,"events":[{"op":"c"}]}')
        await self._batch(commit_ts, [Outgoing(subject, body) for body in bodies])

    async def early(self, *, again: bool = False) -> None:
        """A column more and an empty table, early, with the first row that has the column. `again`:
        by their own binlogs, as a Drainer publishes them that has to fill a lost stream."""
        bucket = Bucket(self._bus, subjects.schemas_bucket(FEED))
        for one in EARLY:
            await bucket.put(changes.schema_key("d", "t", one.version), msgspec.json.encode(one))
        made = [
            ddl("add_column", (T, EARLY[0])),
            ddl("truncate_table", EARLY),
        ]
        messages = [
            msgspec.structs.replace(
                message,
                commit_ts=self.commit_ts + (at if again else 1),
                schema_version=one.version,
                early=not again,
            )
            for at, (message, one) in enumerate(zip(made, EARLY, strict=True), 1)
        ]
        if again:
            for message in messages:
                await self.ddl(message)
            return
        subject = subjects.changes_ddl(FEED, "d", "t")
        bodies = [Outgoing(subject, msgspec.json.encode(message)) for message in messages]
        commit_ts = self.commit_ts + 1
        row = {"id": EARLY_ID, "v": 1, "n": 2}
        event = Event("c", commit_ts, {"id": EARLY_ID}, None, row)
        rows = RowMessage("d", "t", EARLY[1].version, [event])
        bodies.append(Outgoing(subjects.changes_row(FEED, "d", "t"), msgspec.json.encode(rows)))
        await self._batch(commit_ts, bodies)

    async def watermark(self, resolved_ts: int) -> None:
        body = Watermark(resolved_ts, self.commit_ts)
        self.commit_ts = resolved_ts
        headers = {changes.H_LAST_TS: str(resolved_ts)}
        subject = subjects.changes_watermark(FEED)
        message = Outgoing(subject, msgspec.json.encode(body), headers)
        await self._bus.append(self.stream, [message])

    async def _batch(
        self, commit_ts: int, bodies: list[Outgoing], txns: list[MarkedTxn] | None = None
    ) -> None:
        attempt = f"a{commit_ts}"
        messages = [
            Outgoing(
                one.subject, one.data, {changes.H_ATTEMPT: attempt, changes.H_INDEX: str(index)}
            )
            for index, one in enumerate(bodies)
        ]
        marker = Marker(
            attempt,
            len(messages),
            self.commit_ts,
            txns or [MarkedTxn(commit_ts, commit_ts, 1)],
        )
        headers = {changes.H_LAST_TS: str(commit_ts), changes.H_ATTEMPT: attempt}
        subject = subjects.changes_txn(FEED)
        messages.append(Outgoing(subject, msgspec.json.encode(marker), headers))
        await self._bus.append(self.stream, messages)
        self.commit_ts = commit_ts


def create(key: int, value: int) -> Event:
    return Event("c", 0, {"id": key}, None, {"id": key, "v": value})
