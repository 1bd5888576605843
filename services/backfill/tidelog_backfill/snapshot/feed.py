"""The feed as target: rows as `op r` events in a stream of its own, SNAP_<FEED>, for readers that
take a copy before they follow the feed.

    snap.<feed>.table.<db>.<table>   the table's structure, before its rows
    snap.<feed>.row.<db>.<table>     a RowMessage, as in the feed; `i/n` fragments where it is large
    snap.<feed>.chunk                a chunk's rows are all there; those of one may come twice
    snap.<feed>.done                 the copy is whole: go on in the feed after `ts`
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import msgspec

from tidelog import subjects
from tidelog.change_bodies import Joiner
from tidelog.changes import BATCH_MESSAGES, H_FRAGMENT, MESSAGE_BYTES, Event, RowMessage
from tidelog.downstream import Image
from tidelog.errors import Conflict, Refused, Stopped, StreamMissing
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
    """Connected for each call: between two of them the copy may be planned for minutes, in which
    nobody answers the server, and it closes the connection."""

    def __init__(self, way: FeedWay) -> None:
        self._way = way
        self._feed = way.feed
        self._stream = subjects.snap_stream(way.feed)

    @property
    def anew(self) -> str:
        return f"delete the stream {self._stream}"

    async def kept(self) -> SnapshotPlan | None:
        async with self._bus() as bus:
            return await self._kept(bus)

    async def _kept(self, bus: NatsBus) -> SnapshotPlan | None:
        joiner = Joiner()
        for message in await self._read(bus, "plan"):
            whole = joiner.whole(message)
            if whole is not None:
                return self._decoded(whole.data, SnapshotPlan)
        return None

    def _decoded(self, data: bytes, kind: type[T]) -> T:
        """Raises Stopped."""
        try:
            return msgspec.json.decode(data, type=kind)
        except NOT_READABLE as error:
            what = f"the stream {self._stream} holds what is of no copy: {error}"
            raise Stopped(what, hint=self.anew) from error

    async def prepare(self, tables: Sequence[CopiedTable], ts: int) -> Prepared:
        async with self._bus() as bus:
            await bus.stream_create(StreamConfig(self._stream, (subjects.snap(self._feed, ">"),)))
            for table in tables:
                subject = subjects.snap_table(self._feed, table.db, table.structure.name)
                body = msgspec.json.encode(table.structure)
                await append(bus, self._feed, messages(subject, body))
        return Prepared(list(tables))

    async def keep(self, plan: SnapshotPlan) -> None:
        """The stream's only one: chunks are told by their numbers, and those of another plan have
        other rows. Raises Refused where another backfill has kept one meanwhile."""
        outgoing = messages(subjects.snap(self._feed, "plan"), msgspec.json.encode(plan))
        async with self._bus() as bus:
            try:
                await append(bus, self._feed, outgoing, is_first=True)
            except Conflict:
                if await self._kept(bus) != plan:
                    raise Refused(
                        f"another backfill writes the stream {self._stream}",
                        hint="let it end; the same command goes on with its copy, if it does not",
                    ) from None

    async def done(self, plan: SnapshotPlan) -> frozenset[int]:
        async with self._bus() as bus:
            told = await self._read(bus, "chunk")
        return frozenset(self._decoded(message.data, ChunkDone).number for message in told)

    def way(self) -> FeedWay:
        return self._way

    async def finish(self, plan: SnapshotPlan, reach: int) -> None:
        async with self._bus() as bus:
            if await self._read(bus, "done"):
                return
            body = msgspec.json.encode(CopyDone(plan.ts, reach, plan.exact, plan.guarantee))
            await append(bus, self._feed, [Outgoing(subjects.snap(self._feed, "done"), body)])

    async def is_whole(self, plan: SnapshotPlan) -> bool:
        """As its chunks say: nobody else writes the stream."""
        return False

    async def forget(self) -> None:
        """The plan stays: it says what the stream is a copy of."""

    async def close(self) -> None:
        """Nothing is open."""

    @asynccontextmanager
    async def _bus(self) -> AsyncIterator[NatsBus]:
        bus = await self._way.connected()
        try:
            yield bus
        finally:
            await bus.close()

    async def _read(self, bus: NatsBus, kind: str) -> list[Message]:
        """What is there of that subject: a plan, or a few bytes for each of its chunks."""
        subject = subjects.snap(self._feed, kind)
        try:
            last = await bus.last_message(self._stream, subject)
        except StreamMissing:
            return []
        if last is None:
            return []
        found: list[Message] = []
        reader = await bus.read(self._stream, start_seq=1, subjects=(subject,))
        try:
            while not found or found[-1].sequence < last.sequence:
                found += await reader.next_batch(500, READ_S)
        finally:
            await reader.close()
        return found


async def append(
    bus: NatsBus, feed: str, outgoing: Iterable[Outgoing], *, is_first: bool = False
) -> None:
    """In order, whole or not at all, and with nobody else's fragments between: one batch. Raises
    Refused for more than that takes; Conflict where it `is_first`, and its subject has some."""
    batch = list(outgoing)
    if len(batch) > BATCH_MESSAGES:
        size = sum(len(one.data) for one in batch)
        most = BATCH_MESSAGES * MESSAGE_BYTES
        raise Refused(
            f"{batch[0].subject}: {size} bytes of JSON in one piece, where a stream takes {most}",
            hint="leave the table of so large a row out, by `tables`",
        )
    last = 0 if is_first else None
    stream = subjects.snap_stream(feed)
    await bus.append(stream, batch, expected_last_subject_seq=last, timeout_s=APPEND_S)
