"""The feed as target: rows as `op r` events in a stream of its own, SNAP_<FEED>, for readers that
take a copy before they follow the feed.

    snap.<feed>.table.<db>.<table>   the table's structure, before its rows
    snap.<feed>.row.<db>.<table>     a RowMessage, as in the feed; `i/n` fragments where it is large
    snap.<feed>.chunk                a chunk's rows are all there; those of one may come twice
    snap.<feed>.done                 the copy is whole: go on in the feed after `ts`
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec

from tidelog import subjects
from tidelog.change_bodies import Joiner
from tidelog.changes import BATCH_MESSAGES, H_FRAGMENT, MESSAGE_BYTES, Event, RowMessage
from tidelog.downstream import Image
from tidelog.errors import Refused, Stopped, StreamMissing
from tidelog.ports import Message, Outgoing, StreamConfig
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.target import Prepared

CONNECT_S = 10.0
APPEND_S = 60.0
"""A batch of all the messages that one may have is 250 MiB."""
READ_S = 1.0
T = TypeVar("T")


class ChunkDone(msgspec.Struct, frozen=True):
    number: int
    rows: int


class CopyDone(msgspec.Struct, frozen=True):
    """Rows are as of `ts`, or (not `exact`) of some moment between `ts` and `reach`."""

    ts: int
    reach: int
    exact: bool
    guarantee: str


def bodies(table: CopiedTable, images: Iterable[Image], ts: int) -> Iterator[bytes]:
    """Row messages of about MESSAGE_BYTES at most. Pure."""
    structure, size = table.structure, 0
    events: list[Event] = []
    for image in images:
        key = {name: image.row[name] for name in structure.key_columns} or None
        event = Event("r", ts, key=key, after=image.row, b64=list(image.b64))
        added = len(msgspec.json.encode(event)) + 1
        if events and size + added > MESSAGE_BYTES - 1024:
            yield msgspec.json.encode(RowMessage(table.db, structure.name, 0, events))
            events, size = [], 0
        events.append(event)
        size += added
    if events:
        yield msgspec.json.encode(RowMessage(table.db, structure.name, 0, events))


def messages(subject: str, body: bytes) -> Iterator[Outgoing]:
    """One, or its fragments. Pure."""
    if len(body) <= MESSAGE_BYTES:
        yield Outgoing(subject, body)
        return
    count = -(-len(body) // MESSAGE_BYTES)
    for at in range(count):
        piece = body[at * MESSAGE_BYTES : (at + 1) * MESSAGE_BYTES]
        yield Outgoing(subject, piece, {H_FRAGMENT: f"{at}/{count}"})


class FeedWriter:
    """One chunk."""

    def __init__(self, bus: NatsBus, feed: str, table: CopiedTable, number: int, ts: int) -> None:
        self._bus = bus
        self._feed = feed
        self._table = table
        self._number = number
        self._ts = ts
        self._rows = 0
        self._subject = subjects.snap_row(feed, table.db, table.structure.name)

    async def write(self, images: Sequence[Image]) -> None:
        for body in bodies(self._table, images, self._ts):
            await self._append(messages(self._subject, body))
        self._rows += len(images)

    async def done(self) -> None:
        told = msgspec.json.encode(ChunkDone(self._number, self._rows))
        await self._append([Outgoing(subjects.snap(self._feed, "chunk"), told)])

    async def _append(self, outgoing: Iterable[Outgoing]) -> None:
        await append(self._bus, self._feed, outgoing)

    async def close(self) -> None:
        await self._bus.close()


class FeedWay(msgspec.Struct, frozen=True):
    nats_url: str
    feed: str
    access: NatsAccess = NatsAccess()

    async def connected(self) -> NatsBus:
        return await NatsBus.connect(
            self.nats_url, name="backfill", timeout_s=CONNECT_S, access=self.access
        )

    async def chunk(self, lane: int, table: CopiedTable, chunk: Chunk, ts: int) -> FeedWriter:
        bus = await self.connected()
        return FeedWriter(bus, self.feed, table, chunk.number, ts)


class FeedTarget:
    """Connected by its first call."""

    def __init__(self, way: FeedWay) -> None:
        self._way = way
        self._feed = way.feed
        self._bus: NatsBus | None = None

    @property
    def anew(self) -> str:
        return f"delete the stream {subjects.snap_stream(self._feed)}"

    async def kept(self) -> SnapshotPlan | None:
        joiner = Joiner()
        async for message in self._read("plan"):
            whole = joiner.whole(message)
            if whole is not None:
                return self._decoded(whole.data, SnapshotPlan)
        return None

    def _decoded(self, data: bytes, kind: type[T]) -> T:
        """Raises Stopped."""
        try:
            return msgspec.json.decode(data, type=kind)
        except NOT_READABLE as error:
            stream = subjects.snap_stream(self._feed)
            what = f"the stream {stream} holds what is of no copy: {error}"
            raise Stopped(what, hint=self.anew) from error

    async def prepare(self, tables: Sequence[CopiedTable], ts: int) -> Prepared:
        bus = await self._connected()
        name = subjects.snap_stream(self._feed)
        await bus.stream_create(StreamConfig(name, (subjects.snap(self._feed, ">"),)))
        for table in tables:
            subject = subjects.snap_table(self._feed, table.db, table.structure.name)
            body = msgspec.json.encode(table.structure)
            await append(bus, self._feed, messages(subject, body))
        return Prepared(list(tables))

    async def keep(self, plan: SnapshotPlan) -> None:
        subject = subjects.snap(self._feed, "plan")
        bus = await self._connected()
        await append(bus, self._feed, messages(subject, msgspec.json.encode(plan)))

    async def done(self, plan: SnapshotPlan) -> frozenset[int]:
        found = [
            self._decoded(message.data, ChunkDone).number async for message in self._read("chunk")
        ]
        return frozenset(found)

    def way(self) -> FeedWay:
        return self._way

    async def finish(self, plan: SnapshotPlan, reach: int) -> None:
        async for _ in self._read("done"):
            return
        body = msgspec.json.encode(CopyDone(plan.ts, reach, plan.exact, plan.guarantee))
        bus = await self._connected()
        await append(bus, self._feed, [Outgoing(subjects.snap(self._feed, "done"), body)])

    async def is_whole(self, plan: SnapshotPlan) -> bool:
        """As its chunks say: nobody else writes the stream."""
        return False

    async def forget(self) -> None:
        """The plan stays: it says what the stream is a copy of."""

    async def close(self) -> None:
        if self._bus is not None:
            await self._bus.close()

    async def _connected(self) -> NatsBus:
        if self._bus is None:
            self._bus = await self._way.connected()
        return self._bus

    async def _read(self, kind: str) -> AsyncIterator[Message]:
        """What is there of that subject."""
        bus = await self._connected()
        stream, subject = subjects.snap_stream(self._feed), subjects.snap(self._feed, kind)
        try:
            last = await bus.last_message(stream, subject)
        except StreamMissing:
            return
        if last is None:
            return
        reader = await bus.read(stream, start_seq=1, subjects=(subject,))
        try:
            at = 0
            while at < last.sequence:
                for message in await reader.next_batch(500, READ_S):
                    at = message.sequence
                    yield message
        finally:
            await reader.close()


async def append(bus: NatsBus, feed: str, outgoing: Iterable[Outgoing]) -> None:
    """In order, whole or not at all, and with nobody else's fragments between: one batch. Raises
    Refused for more than that takes."""
    batch = list(outgoing)
    if len(batch) > BATCH_MESSAGES:
        size = sum(len(one.data) for one in batch)
        most = BATCH_MESSAGES * MESSAGE_BYTES
        raise Refused(
            f"{batch[0].subject}: {size} bytes of JSON in one piece, where a stream takes {most}",
            hint="leave the table of so large a row out, by `tables`",
        )
    await bus.append(subjects.snap_stream(feed), batch, timeout_s=APPEND_S)
