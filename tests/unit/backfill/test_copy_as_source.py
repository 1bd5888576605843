"""A copy in Parquet files is a source once it is whole."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyarrow.parquet import ParquetFile

from tests.unit.downstreams.shapes import column, table
from tidelog.errors import Refused
from tidelog_backfill.snapshot import dump_source, parquet
from tidelog_backfill.snapshot.dump_source import DumpSource
from tidelog_backfill.snapshot.parquet import PLAN, WHOLE, ParquetTarget
from tidelog_backfill.snapshot.plan import Asked, Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.values import RowImages, stored

S = 100
TABLE = CopiedTable("d", table("t", column("id", "int(11)"), key=("id",)))
CHUNKS = [Chunk(0, 0), Chunk(1, 0)]
FILES = ["d.t/chunk-000000.parquet", "d.t/chunk-000001.parquet"]


def files(directory: Path, *names: str) -> tuple[str, ...]:
    """Of the table, as a job is told that copies the copy."""
    plan = SnapshotPlan(S, True, "exact", [TABLE], CHUNKS, Asked("f", "mysql://db", ()))
    (directory / PLAN).write_bytes(msgspec.json.encode(plan))
    (directory / "d.t").mkdir()
    for name in names:
        (directory / name).touch()
    (found,) = DumpSource(str(directory)).found((), S).tables
    return found.files


def test_all_of_it_is_copied(tmp_path: Path) -> None:
    assert files(tmp_path, *FILES, WHOLE) == tuple(FILES)


@pytest.mark.parametrize(
    ("names", "lacks"),
    [(FILES[:1], WHOLE), (FILES, WHOLE), ([FILES[0], WHOLE], FILES[1]), ([WHOLE], FILES[0])],
)
def test_a_part_of_it_is_refused(tmp_path: Path, names: list[str], lacks: str) -> None:
    with pytest.raises(Refused, match=f"not whole: {lacks} is missing"):
        files(tmp_path, *names)


VALUES = CopiedTable(
    "d",
    table(
        "v",
        column("id", "bigint(20) unsigned", nullable=False),
        column("b", "bit(64)", length=64),
        column("n", "decimal(20,10)", length=20, scale=10),
        column("j", "json"),
        key=("id",),
    ),
)


def test_its_memory_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_BYTES", 1 << 20)
    asyncio.run(filled(tmp_path, *((n, n, None, f'"{"x" * (1 << 20)}"') for n in range(9))))
    file = ParquetFile(tmp_path / "d.v" / "chunk-000000.parquet")
    assert file.num_row_groups == 9
    source = DumpSource(str(tmp_path))
    (found,) = source.found((), S).tables
    monkeypatch.setattr(dump_source, "BATCH_BYTES", 1 << 20)
    with source.read(found, source.chunks([found], 1, S)[0], S, 100) as batches:
        assert [len(batch) for batch in batches] == [1] * 9


async def filled(directory: Path, *rows: tuple[Any, ...]) -> None:
    """By a copy of so many rows, one after the other, of a server."""
    target, images = ParquetTarget(str(directory)), RowImages(stored(VALUES.structure))
    await target.prepare([VALUES], S)
    plan = SnapshotPlan(S, True, "exact", [VALUES], [Chunk(0, 0)], Asked("f", "mysql://db", ()))
    await target.keep(plan)
    writer = await target.way().chunk(0, VALUES, plan.chunks[0], S)
    for row in rows:
        await writer.write(images.of([row]))
    await writer.done()
    await writer.close()
    await target.finish(plan, S)


def test_its_values_are_as_the_server_gave_them(tmp_path: Path) -> None:
    rows = [
        ((1 << 64) - 1, (1 << 64) - 1, "0.0000000000", "null"),
        (5, 7, "-1.5000000000", '{"a": 1.0}'),
        (6, None, None, None),
    ]
    asyncio.run(filled(tmp_path, *rows))
    source = DumpSource(str(tmp_path))
    (found,) = source.found((), S).tables
    (chunk,) = source.chunks([found], 1, S)
    with source.read(found, chunk, S, 10) as batches:
        assert [row for batch in batches for row in batch] == rows
