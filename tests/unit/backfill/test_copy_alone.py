"""One backfill at a time fills a Parquet directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from tests.unit.downstreams.shapes import column, table
from tidelog.downstream import Image
from tidelog.errors import DirectoryLocked, Refused
from tidelog_backfill.lake import Lake
from tidelog_backfill.snapshot.parquet import WHOLE, ParquetTarget
from tidelog_backfill.snapshot.plan import Asked, Chunk, CopiedTable, SnapshotPlan

TABLE = CopiedTable("d", table("t", column("id", "int(11)"), key=("id",)))
PLAN = SnapshotPlan(5, True, "exact", [TABLE], [Chunk(0, 0)], Asked("f", "mysql://db", ()))
LATER = msgspec.structs.replace(PLAN, ts=6)


def test_a_second_one_waits_for_the_first_to_end(tmp_path: Path) -> None:
    """From before the first has decided on a plan."""
    place = f"{tmp_path}/copy"

    async def main() -> None:
        first = ParquetTarget(place)
        assert await first.kept() is None
        with pytest.raises(DirectoryLocked, match=r"_backfill\.lock is locked by process"):
            await ParquetTarget(place).kept()
        await first.keep(PLAN)
        await first.close()
        second = ParquetTarget(place)
        assert await second.kept() == PLAN
        await second.close()

    asyncio.run(main())


def test_a_lock_that_nobody_holds_any_more_leaves_a_directory_empty(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(2):
            target = ParquetTarget(str(tmp_path))
            assert await target.kept() is None
            await target.close()

    asyncio.run(main())


def test_in_a_directory_of_something_else_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "shop.t-schema.sql").touch()
    with pytest.raises(Refused, match="is not empty"):
        asyncio.run(ParquetTarget(str(tmp_path)).kept())
    assert [one.name for one in tmp_path.iterdir()] == ["shop.t-schema.sql"]


def test_where_nobody_can_be_kept_out_one_of_two_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an object store."""
    monkeypatch.setattr(Lake, "lock", lambda *_: None)

    async def main() -> None:
        first, second = ParquetTarget(str(tmp_path)), ParquetTarget(str(tmp_path))
        assert await first.kept() is None
        assert await second.kept() is None
        await first.keep(PLAN)
        for ended in (second.keep(LATER), second.done(LATER), second.finish(LATER, 6)):
            with pytest.raises(Refused, match="another backfill writes"):
                await ended
        assert await first.done(PLAN) == frozenset()
        await first.finish(PLAN, 5)

    asyncio.run(main())
    assert b'"ts":5' in (tmp_path / WHOLE).read_bytes()


def images(count: int) -> list[Image]:
    return [Image({"id": number}) for number in range(count)]


@pytest.mark.parametrize("last", ["the one that was given up", "the one in its place"])
def test_a_task_that_was_given_up_and_writes_on_spoils_no_file(tmp_path: Path, last: str) -> None:
    """Of an executor that Spark has lost sight of; its chunk is another one's by then."""

    async def main() -> None:
        target = ParquetTarget(str(tmp_path))
        await target.kept()
        await target.keep(PLAN)
        old = await target.way().chunk(0, TABLE, PLAN.chunks[0], 5)
        await old.write(images(3000))
        new = await target.way().chunk(0, TABLE, PLAN.chunks[0], 5)
        await new.write(images(2000))
        left = await target.way().chunk(0, TABLE, PLAN.chunks[0], 5)  # it is killed
        await left.write(images(10))
        first, second = (new, old) if last.endswith("up") else (old, new)
        await first.done()
        await second.done()
        for writer in (old, new):
            await writer.close()
        assert await target.done(PLAN) == {0}
        await target.finish(PLAN, 5)
        await target.close()

    asyncio.run(main())
    rows = parquet.read_table(tmp_path / "d.t" / "chunk-000000.parquet").num_rows
    assert rows == (3000 if last.endswith("up") else 2000)
    assert [one.name for one in (tmp_path / "d.t").iterdir()] == ["chunk-000000.parquet"]
