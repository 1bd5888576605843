"""One step of a replay: a segment's rows as one Spark job.

chunks ─▶ reader ─▶ (shuffle by part) ─▶ sorted ─▶ writer, a lane for each part
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidelog.leftovers import settle
from tidelog_backfill.files.chain import alone, chained
from tidelog_backfill.files.chunk import Chunk, Facts
from tidelog_backfill.files.records import OnCorrupt
from tidelog_backfill.replay.bundles import ORDER, Counts
from tidelog_backfill.replay.plan import Segment
from tidelog_backfill.replay.routing import Routing
from tidelog_backfill.replay.write import (
    SENT,
    WROTE,
    Batches,
    PartWriting,
    Reading,
    Stepped,
    Wrote,
    reader,
    without_spark,
    writer,
)
from tidelog_backfill.task_errors import errors_carried

TASK_BYTES = 8 << 20
"""A chunk is cut for more tasks than this only where cores would be idle."""
PARTS = 32
"""Of a large segment, also where fewer cores write them: each is written within seconds, which
progress, and a job that is begun again, have something of."""
PART_BYTES, LEAST_BYTES = 32 << 20, 1 << 20
"""Of rows: what a part of a large segment has, and what one is worth at all."""
BUCKET_BYTES = 8 << 20
"""Of rows, about: what a writing task holds at once."""
CUT = 1
"""Another number with every change of what goes to which part: parts that were written before are
of another step then."""
SMALL_BYTES = 1 << 20
"""Of rows that the driver writes itself: a job of Spark's takes longer than they do."""
MANY = 8
"""So many times what was thought is left to Spark after all."""


def surveyed(spark: SparkSession, chunks: list[Chunk], on_corrupt: OnCorrupt) -> list[Facts]:
    """What each chunk holds, in their order."""

    def facts(batches: Batches) -> Batches:
        settle()
        with errors_carried():
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    data = msgspec.msgpack.encode(alone(chunks[number], on_corrupt=on_corrupt))
                    yield pa.RecordBatch.from_pydict({"number": [number], "facts": [data]})

    if not chunks:
        return []
    rows = _numbers(spark, len(chunks)).mapInArrow(facts, "number bigint, facts binary").collect()
    found = sorted((row.number, bytes(row.facts)) for row in rows)
    told = [msgspec.msgpack.decode(data, type=Facts) for _, data in found]
    return chained(told, on_corrupt=on_corrupt)


async def carried_out(
    spark: SparkSession, segment: Segment, reading: Reading, writing: PartWriting
) -> Stepped:
    """What each part came to, and what was left out. Raises what tasks do, that of
    Spark's within an error of its own (`task_errors.carried`)."""
    if segment.size <= SMALL_BYTES:  # as far as is known: sizes within a chunk are estimates
        stepped = await without_spark(reading, writing, MANY * SMALL_BYTES)
        if stepped is not None:
            return stepped
    return _by_spark(spark, reading, writing)


def _by_spark(spark: SparkSession, reading: Reading, writing: PartWriting) -> Stepped:
    rows = (
        _numbers(spark, len(reading.chunks))
        .mapInArrow(reader(reading), SENT)
        .repartitionById(reading.routing.parts, "part")
        .sortWithinPartitions(*ORDER)
        .mapInArrow(writer(writing), WROTE)
        .collect()
    )
    counts = Counts()
    for row in rows:
        counts.add(bytes(row.counts))
    wrote = [Wrote(row.part, row.rows, row.works, list(row.pins)) for row in rows]
    return Stepped(wrote, counts)


def digest(segment: Segment, routing: Routing) -> str:
    """Equal for two steps whose parts write the same, in whatever process."""
    what = (CUT, segment.view, segment.chunks, segment.surveyed, routing)
    ordered = msgspec.to_builtins(what, str_keys=True, order="deterministic")
    return sha256(msgspec.msgpack.encode(ordered)).hexdigest()[:32]


def most_parts(wanted: int, cores: int) -> int:
    """Of any segment. `wanted`: by the job, 0 if it does not say it."""
    return wanted or max(PARTS, 2 * cores)


def parts_of(segment: Segment, wanted: int, cores: int) -> int:
    by_size = max(2 * cores, segment.size // PART_BYTES)
    most = wanted or min(by_size, most_parts(wanted, cores))
    return max(1, min(most, segment.size // LEAST_BYTES))


def buckets_of(segment: Segment, parts: int) -> int:
    """Into how many a part's rows are cut."""
    return max(1, -(-segment.size // (parts * BUCKET_BYTES)))


def tasks_of(chunks: list[Chunk], wanted: int) -> list[Chunk]:
    """About so many tasks, if that is worth it."""
    size = sum(chunk.end - chunk.begin for chunk in chunks)
    task_bytes = max(TASK_BYTES, -(-size // wanted))
    return [part for chunk in chunks for part in chunk.parts(task_bytes)]


def _numbers(spark: SparkSession, count: int) -> DataFrame:
    """A task for each number below `count`."""
    return spark.range(0, count, 1, count)
