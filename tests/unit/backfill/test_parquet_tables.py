"""Many tables in one part of a replay into Parquet files: what it holds does not grow with them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event, RowMessage
from tidelog.downstreams.writing import rule_of
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.replay.bundles import Bundle, in_order
from tidelog_backfill.replay.parquet import ParquetTarget
from tidelog_backfill.replay.plan import Segment
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.shuffle import Shuffler
from tidelog_backfill.replay.write import Wrote

MANY = 20
SEGMENT = Segment(0, 9, [], View([Span(0, 9)]), [], {})


@pytest.mark.parametrize("key", [("id",), ()])
def test_a_tables_files_are_written_before_the_next_tables_begin(
    tmp_path: Path, key: tuple[str, ...]
) -> None:
    tables = [table(f"t{number}", column("id", "int(11)"), key=key) for number in range(MANY)]
    route = routing([("d", one, rule_of(one)) for one in tables], 1)
    shuffler = Shuffler(route, 0, 9)
    for one in tables:
        event = Event("c", 5, {"id": 1} if key else None, None, {"id": 1})
        shuffler.add(Body(msgspec.json.encode(RowMessage("d", one.name, 1, [event])), 0))
    begun: list[int] = []

    def watched(found: Iterable[Bundle]) -> Iterator[Bundle]:
        for bundle in found:
            begun.append(sum(one.name.startswith("_") for one in tmp_path.rglob("*.parquet*")))
            yield bundle

    async def step() -> Wrote:
        target = ParquetTarget(str(tmp_path), "f")
        writing, _ = await target.step(SEGMENT, route)
        return await writing.written(0, watched(sorted(shuffler.take(), key=in_order)))

    assert asyncio.run(step()) == Wrote(0, MANY, MANY, [])
    assert max(begun) == 1
    found = sorted(tmp_path.rglob("*.parquet"))
    assert len(found) == MANY
    assert all(parquet.read_table(one).num_rows == 1 for one in found)
