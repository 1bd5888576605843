"""What is written into a directory of Parquet files lasts before anything stands on it."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path

import msgspec
import pytest

from tests.unit.backfill.test_parquet_texts import SEGMENT
from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event, RowMessage
from tidelog.downstreams.writing import rule_of
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.replay import parquet as replayed
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.shuffle import Shuffler
from tidelog_backfill.snapshot import parquet as copied
from tidelog_backfill.snapshot.plan import Asked, Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.values import RowImages, stored

STRUCTURE = table("t", column("id", "int(11)"), key=("id",))


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What was synced below `tmp_path`, by the name that it had then, but for a try's own end."""
    found: list[str] = []

    def noted(descriptor: int) -> None:
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        found.append(re.sub(r"[.][0-9a-f]{16}$", "", str(place.relative_to(tmp_path))))

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(os, "fdatasync", noted)
    return found


def test_a_replays_checkpoint_and_the_rows_below_it_are_synced(
    tmp_path: Path, synced: list[str]
) -> None:
    """Before the name is there, and then the directory that has it."""
    route = routing([("d", STRUCTURE, rule_of(STRUCTURE))], 1)
    shuffler = Shuffler(route, 0, 9)
    event = Event("c", 5, {"id": 1}, None, {"id": 1})
    shuffler.add(Body(msgspec.json.encode(RowMessage("d", "t", 1, [event])), 0))

    async def written() -> None:
        target = replayed.ParquetTarget(f"{tmp_path}/lake", "f")
        writing, _ = await target.step(SEGMENT, route)
        await writing.written(0, iter(list(shuffler.take())))
        synced.append("rows")
        await target.save(target.position.at(9))
        synced.append("checkpoint")
        await target.step(SEGMENT, route)

    asyncio.run(written())
    rows = "00000000000000000000-v1-000.parquet"
    assert synced == [
        *("lake", "."),
        *(f"lake/d.t/_{rows}", "lake/d.t", "rows"),
        *("lake/_replay.json.new", "lake", "checkpoint"),
        "lake/d.t",
    ]


def test_so_are_a_copys_plan_its_chunks_and_its_end(tmp_path: Path, synced: list[str]) -> None:
    one = CopiedTable("d", STRUCTURE)
    plan = SnapshotPlan(5, True, "exact", [one], [Chunk(0, 0)], Asked("f", "mysql://db", ()))

    async def written() -> None:
        target = copied.ParquetTarget(f"{tmp_path}/lake")
        await target.prepare([one], 5)
        await target.keep(plan)
        synced.append("plan")
        chunk = await target.way().chunk(0, one, plan.chunks[0], 5)
        await chunk.write(RowImages(stored(STRUCTURE)).of([(1,)]))
        await chunk.done()
        synced.append("chunk")
        await target.finish(plan, 5)

    asyncio.run(written())
    assert synced == [
        ".",
        *("lake/_backfill.json.new", "lake", "plan"),
        "lake",
        *("lake/d.t/_chunk-000000.parquet", "lake/d.t", "chunk"),
        *("lake/_SUCCESS.new", "lake"),
    ]
