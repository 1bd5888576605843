"""One backfill at a time fills a Parquet directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, table
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
