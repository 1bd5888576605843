"""The tasks of a step: chunks are read and sent to the parts, and each part is written through its
own lane. What runs here runs in Spark's Python workers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa
from pyspark import TaskContext

from tidelog.bulk.jobs import OnCorrupt
from tidelog.downstream import DownstreamOptions, Lane, PartDone, Work
from tidelog.downstreams import open_downstream
from tidelog.errors import Unavailable
from tidelog.ports import Clock
from tidelog.real.clock import RealClock
from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.view import View
from tidelog_backfill.replay.routing import Routing
from tidelog_backfill.replay.shuffle import LEFT_OUT, Sent, Shuffler
from tidelog_backfill.replay.works import Works
from tidelog_backfill.task_errors import errors_carried

Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]

SENT = (
    "part int, `table` int, form int, kind int, `key` binary, exact binary, commit_ts bigint,"
    " seq bigint, b64 binary, payload binary"
)
ORDER = ("table", "key", "exact", "commit_ts", "seq")
_ORDER = attrgetter(*ORDER)
WROTE = "part int, rows bigint, works bigint, pins array<int>, left_out binary"
BATCH_ROWS = 10_000
ATTEMPTS = 6
"""Of one transaction, each through a new connection."""
PAUSE_S = 0.5
"""Before the second attempt; then twice as long each time."""

_SENT_TYPES = [
    pa.int32(),
    pa.int32(),
    pa.int32(),
    pa.int32(),
    pa.binary(),
    pa.binary(),
    pa.int64(),
    pa.int64(),
    pa.binary(),
    pa.binary(),
]


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
    """What a step came to; `left_out` as `bodies` counts it, by reason."""

    wrote: list[Wrote]
    left_out: Counter[str]


class PartWriting(Protocol):
    """How parts are written. Travels to executors."""

    async def written(self, part: int, rows: Iterator[Sent]) -> Wrote:
        """All of a part's rows, sorted. The same again comes to the same."""


class LaneWriting(msgspec.Struct, frozen=True):
    """Through lanes of the opening of `epoch`; `newest` as in Downstream.join."""

    options: DownstreamOptions
    feed: str
    epoch: int
    newest: list[tuple[str, TableStructure]]
    routing: Routing
    step: str
    max_rows: int

    async def written(self, part: int, rows: Iterator[Sent]) -> Wrote:
        """Raises what a lane does."""
        lane = PartLane(self, part, RealClock())
        works = Works(self.routing, self.max_rows)
        count = 0
        try:
            for shares in works.of(rows):
                await lane.apply(Work(shares, safe=True))
                count += 1
            if not works.pins:
                await lane.apply(Work([], safe=True, done=PartDone(self.step, part)))
        finally:
            await lane.close()
        return Wrote(part, works.rows, count, sorted(works.pins))


def reader(reading: Reading) -> Task:
    """Its batches hold numbers of chunks. Raises what reading a chunk does."""

    def read(batches: Batches) -> Batches:
        with errors_carried():
            for batch in batches:
                for (number,) in zip(*batch.to_pydict().values(), strict=True):
                    left_out: Counter[str] = Counter()
                    for rows in _sent(reading, reading.chunks[number], left_out):
                        yield _batch(rows)
                    if +left_out:
                        yield _batch([_counts(left_out)])

    return read


async def without_spark(reading: Reading, writing: PartWriting) -> Stepped:
    """All of it here and now, all parts through one lane after the other: for a few rows. Raises
    what the two tasks do."""
    parts: dict[int, list[Sent]] = {}
    left_out: Counter[str] = Counter()
    for chunk in reading.chunks:
        for rows in _sent(reading, chunk, left_out):
            for one in rows:
                parts.setdefault(one.part, []).append(one)
    wrote = [
        await writing.written(part, iter(sorted(rows, key=_ORDER)))
        for part, rows in sorted(parts.items())
    ]
    return Stepped(wrote, left_out)


def writer(writing: PartWriting) -> Task:
    """Its batches hold the rows of one part, sorted. Raises what a lane does."""

    def write(batches: Batches) -> Batches:
        with errors_carried():
            context = TaskContext.get()
            assert context is not None
            left_out: Counter[str] = Counter()
            rows = changes(_rows(batches), left_out)
            wrote = asyncio.run(writing.written(context.partitionId(), rows))
        names = [*Wrote._fields, "left_out"]
        values = [*wrote, msgspec.json.encode(left_out)]
        types = [pa.int32(), pa.int64(), pa.int64(), pa.list_(pa.int32()), pa.binary()]
        columns = [pa.array([value], kind) for value, kind in zip(values, types, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, names)

    return write


def _counts(left_out: Counter[str]) -> Sent:
    """To some part: so they are told once, however often a task is tried. They stand before all
    tables."""
    return Sent(0, -1, 0, LEFT_OUT, b"", b"", 0, 0, b"", msgspec.json.encode(left_out))


def changes(rows: Iterator[Sent], left_out: Counter[str]) -> Iterator[Sent]:
    """A part's rows without what was left out, which is counted."""
    for one in rows:
        if one.kind == LEFT_OUT:
            left_out.update(msgspec.json.decode(one.payload, type=dict[str, int]))
        else:
            yield one


def _sent(reading: Reading, chunk: Chunk, left_out: Counter[str]) -> Iterator[list[Sent]]:
    (span,) = reading.view.spans
    shuffler = Shuffler(reading.routing, span.after_ts, span.until_ts)
    shown = bodies(chunk, reading.view, on_corrupt=reading.on_corrupt, left_out=left_out)
    for body in shown:
        shuffler.add(body)
        if shuffler.is_full:
            yield from _pieces(shuffler, reading.done)
    yield from _pieces(shuffler, reading.done)


def _pieces(shuffler: Shuffler, done: frozenset[int]) -> Iterator[list[Sent]]:
    rows: list[Sent] = []
    for one in shuffler.take():
        if one.part not in done:
            rows.append(one)
        if len(rows) >= BATCH_ROWS:
            yield rows
            rows = []
    if rows:
        yield rows


def _batch(rows: Sequence[Sent]) -> pa.RecordBatch:
    columns = zip(zip(*rows, strict=True), _SENT_TYPES, strict=True)
    arrays = [pa.array(values, kind) for values, kind in columns]
    return pa.RecordBatch.from_arrays(arrays, list(Sent._fields))


def _rows(batches: Batches) -> Iterator[Sent]:
    for batch in batches:
        columns = [column.to_pylist() for column in batch.columns]
        yield from map(Sent, *columns)


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
