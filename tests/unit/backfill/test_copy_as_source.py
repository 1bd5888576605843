"""A copy in Parquet files is a source once it is whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.errors import Refused
from tidelog_backfill.snapshot.dump_source import DumpSource
from tidelog_backfill.snapshot.parquet import PLAN, WHOLE
from tidelog_backfill.snapshot.plan import Asked, Chunk, CopiedTable, SnapshotPlan

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
