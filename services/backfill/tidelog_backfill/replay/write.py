"""The tasks of a step: chunks are read and sent to the parts, and each part is written through its
own lane. What runs here runs in Spark's Python workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from tidelog.bulk.jobs import OnCorrupt
from tidelog.downstream import DownstreamOptions, Lane, PartDone, Work
from tidelog.downstreams import open_downstream
from tidelog.errors import Unavailable, UnparsablePayload
from tidelog.leftovers import settle
from tidelog.ports import Clock
from tidelog.real.clock import RealClock
from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.records import unreadable
from tidelog_backfill.files.view import View
from tidelog_backfill.replay.bundles import Bundle, Counts, counted, in_order
from tidelog_backfill.replay.gather import gathered
from tidelog_backfill.replay.routing import Routing
from tidelog_backfill.replay.shuffle import Shuffler
from tidelog_backfill.replay.works import Works
from tidelog_backfill.task_errors import errors_carried

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]

SENT = "part int, `table` int, bucket int, commit_ts bigint, seq bigint, data binary"
WROTE = "part int, rows bigint, works bigint, pins array<int>, counts binary"
BATCH_BYTES = 4 << 20
ATTEMPTS = 6
"""Of one transaction, each through a new connection."""
PAUSE_S = 0.5
"""Before the second attempt; then twice as long each time."""

_SENT_TYPES = [pa.int32(), pa.int32(), pa.int32(), pa.int64(), pa.int64(), pa.binary()]


class Reading(msgspec.Struct, frozen=True):
    """What is read. Parts in `done` are written already: nothing is sent to them."""

    chunks: list[Chunk]
    view: View
    routing: Routing
    done: frozenset[int]
    on_corrupt: OnCorrupt


class Wrote(NamedTuple):
    """What one part came to. `pins`: tables that must have one part, and were not written."""

    part: int
    rows: int
    works: int
    pins: list[int]


class Stepped(NamedTuple):
    """What a step came to."""

    wrote: list[Wrote]
    counts: Counts


class PartWriting(Protocol):
    """How parts are written. Travels to executors."""

    async def written(self, part: int, found: Iterator[Bundle]) -> Wrote:
        """All that a part gets, sorted. The same again comes to the same."""


class LaneWriting(msgspec.Struct, frozen=True):
    """Through lanes of the opening of `epoch`; `newest` as in Downstream.join."""

    options: DownstreamOptions
    feed: str
    epoch: int
    newest: list[tuple[str, TableStructure]]
    routing: Routing
    step: str
    max_rows: int

    async def written(self, part: int, found: Iterator[Bundle]) -> Wrote:
        """Raises what a lane does."""
        lane = PartLane(self, part, RealClock())
        works = Works(self.routing, self.max_rows)
        pins: set[int] = set()
        count = 0
        try:
            for shares in works.of(gathered(found, self.routing.spread, pins)):
                await lane.apply(Work(shares, safe=True))
                count += 1
            if not pins:
                await lane.apply(Work([], safe=True, done=PartDone(self.step, part)))
        finally:
            await lane.close()
        return Wrote(part, works.rows, count, sorted(pins))


def reader(reading: Reading) -> Task:
    """Its batches hold numbers of chunks. Raises what reading a chunk does."""

    def read(batches: Batches) -> Batches:
        settle()
        with errors_carried():
            for batch in batches:
                for (number,) in zip(*batch.to_pydict().values(), strict=True):
                    counts = Counts()
                    for found in _sent(reading, reading.chunks[number], counts):
                        yield _batch(found)
                    yield _batch([counts.bundle()])

    return read


async def without_spark(reading: Reading, writing: PartWriting, max_bytes: int) -> Stepped | None:
    """All of it here and now, all parts through one lane after the other: for a few rows. None if
    there are more than was thought, and nothing is written. Raises what the two tasks do."""
    parts: dict[int, list[Bundle]] = {}
    counts = Counts()
    size = 0
    for chunk in reading.chunks:
        for found in _sent(reading, chunk, counts):
            for one in found:
                parts.setdefault(one.part, []).append(one)
                size += len(one.data)
            if size > max_bytes:
                return None
    wrote = [
        await writing.written(part, iter(sorted(found, key=in_order)))
        for part, found in sorted(parts.items())
    ]
    return Stepped(wrote, counts)


def writer(writing: PartWriting) -> Task:
    """Its batches hold the bundles of one part, sorted. Raises what a lane does."""

    def write(batches: Batches) -> Batches:
        settle()
        with errors_carried():
            context = TaskContext.get()
            assert context is not None
            counts = Counts()
            found = counted(_bundles(batches), counts)
            wrote = asyncio.run(writing.written(context.partitionId(), found))
        names = [*Wrote._fields, "counts"]
        values = [*wrote, msgspec.json.encode(counts)]
        types = [pa.int32(), pa.int64(), pa.int64(), pa.list_(pa.int32()), pa.binary()]
        columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names)

    return write


def _sent(reading: Reading, chunk: Chunk, counts: Counts) -> Iterator[list[Bundle]]:
    (span,) = reading.view.spans
    shuffler = Shuffler(reading.routing, span.after_ts, span.until_ts)
    shown = bodies(chunk, reading.view, on_corrupt=reading.on_corrupt, left_out=counts.left_out)
    for body in shown:
        try:
            shuffler.add(body)
        except UnparsablePayload as error:  # of a relay: other bodies are made by who reads them
            raise unreadable(chunk.path, body.seq, error.message) from error
        if shuffler.is_full:
            yield from _pieces(shuffler, reading.done)
    yield from _pieces(shuffler, reading.done)
    counts.rows += shuffler.events


def _pieces(shuffler: Shuffler, done: frozenset[int]) -> Iterator[list[Bundle]]:
    found: list[Bundle] = []
    size = 0
    for one in shuffler.take():
        if one.part not in done:
            found.append(one)
            size += len(one.data)
        if size >= BATCH_BYTES:
            yield found
            found, size = [], 0
    if found:
        yield found


def _batch(found: Sequence[Bundle]) -> pa.RecordBatch:
    columns = zip(zip(*found, strict=True), _SENT_TYPES, strict=True)
    arrays = [pa.array(values, kind) for values, kind in columns]
    return pa.RecordBatch.from_arrays(arrays, list(Bundle._fields))


def _bundles(batches: Batches) -> Iterator[Bundle]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from map(Bundle, *columns)


class PartLane:
    """The part's lane, made anew when its connection breaks: what it writes comes to the same
    however often it is written."""

    def __init__(self, writing: LaneWriting, part: int, clock: Clock) -> None:
        self._writing = writing
        self._part = part
        self._clock = clock
        self._downstream = open_downstream(writing.options)
        self._lane: Lane | None = None

    async def apply(self, work: Work) -> None:
        """Raises what `Lane.apply` does; Unavailable only after several attempts."""
        for attempt in range(ATTEMPTS):
            try:
                if self._lane is None:
                    self._lane = await self._connected()
                await self._lane.apply(work)
                return
            except Unavailable:
                await self.close()
                if attempt == ATTEMPTS - 1:
                    raise
                await self._clock.sleep(PAUSE_S * 2**attempt)

    async def _connected(self) -> Lane:
        writing = self._writing
        await self._downstream.join(writing.feed, writing.epoch, writing.newest)
        return await self._downstream.lane(self._part)

    async def close(self) -> None:
        self._lane = None
        await self._downstream.close()
