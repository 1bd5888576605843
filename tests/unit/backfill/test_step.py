"""What a step's tasks tell beside rows, on its way without Spark and with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa

from tests.unit.backfill.pump_logs import TABLE, VERSION, commit, inserts, prewrite, view, write
from tidelog.downstreams.writing import rule_of
from tidelog.schema.history import TableAt
from tidelog.schema.structure import structure
from tidelog_backfill.files.inputs import found
from tidelog_backfill.replay.bundles import Bundle, Counts, counted, unpacked
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.write import Reading, Wrote, reader, without_spark


class Kept:
    """Writes into a list."""

    def __init__(self) -> None:
        self.keys: list[int] = []

    async def written(self, part: int, found: Iterator[Bundle]) -> Wrote:
        changes = [change for bundle in found for change in unpacked(bundle)]
        self.keys += [msgspec.json.decode(one.payload)["id"] for one in changes]
        return Wrote(part, len(self.keys), 1, [])


def reading(directory: Path) -> Reading:
    """Of two chunks, each with rows of a table that is left out."""
    first, second = (
        [prewrite(ts, inserts([ts]), inserts([1], 8)), commit(ts, ts + 1)] for ts in (10, 20)
    )
    write(directory, [first, second])
    (span,) = view(0, 30).spans
    shown = msgspec.structs.replace(
        view(0, 30), spans=[msgspec.structs.replace(span, dropped={8: "truncated"})]
    )
    shape = structure(TableAt("d", "t7", VERSION, TABLE))
    shape = msgspec.structs.replace(shape, name="t7")
    route = routing([("d", shape, rule_of(shape))], 2)
    return Reading(found(directory).chunks(), shown, route, frozenset((0,)), "stop")


def test_what_is_left_out_is_counted_without_spark(tmp_path: Path) -> None:
    stepped = asyncio.run(without_spark(reading(tmp_path), Kept(), 1 << 20))
    assert stepped is not None
    assert (stepped.counts.rows, stepped.counts.left_out) == (2, {"truncated": 2})


def test_more_than_was_thought_is_not_written_by_the_driver(tmp_path: Path) -> None:
    kept = Kept()
    assert asyncio.run(without_spark(reading(tmp_path), kept, 10)) is None
    assert kept.keys == []


def test_it_comes_with_the_rows_even_to_a_part_that_is_done(tmp_path: Path) -> None:
    numbers = pa.RecordBatch.from_pydict({"id": [0, 1]})
    batches = reader(reading(tmp_path))(iter([numbers]))
    sent = [Bundle(**row) for batch in batches for row in batch.to_pylist()]
    counts = Counts()
    rows = list(counted(sent, counts))
    assert (counts.rows, counts.left_out) == (2, {"truncated": 2})
    assert {one.table for one in rows} <= {0}
    assert len(rows) < len(sent)
