"""One replay at a time writes a Parquet directory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event, RowMessage
from tidelog.downstreams.writing import rule_of
from tidelog.errors import DirectoryLocked, Refused
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.lake import Lake
from tidelog_backfill.replay.parquet import ParquetTarget
from tidelog_backfill.replay.plan import Segment
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.shuffle import Shuffler

STRUCTURE = table("t", column("id", "int(11)"), key=("id",))


async def opened(directory: Path) -> ParquetTarget:
    target = ParquetTarget(str(directory), "f")
    await target.open()
    return target


async def segment(target: ParquetTarget, after: int, until: int) -> None:
    """As a replay's driver does one, with a row."""
    await target.save(target.position.at(after, reach=until))
    route = routing([("d", STRUCTURE, rule_of(STRUCTURE))], 1)
    span = Segment(0, until, [], View([Span(after, until)]), [], {})
    writing, _ = await target.step(span, route)
    shuffler = Shuffler(route, after, until)
    event = Event("c", until, {"id": until}, None, {"id": until})
    shuffler.add(Body(msgspec.json.encode(RowMessage("d", "t", 1, [event])), 0))
    await writing.written(0, iter(list(shuffler.take())))
    await target.save(target.position.at(until))


def test_a_second_one_waits_for_the_first_to_end(tmp_path: Path) -> None:
    async def main() -> None:
        first = await opened(tmp_path)
        await segment(first, 0, 9)
        with pytest.raises(DirectoryLocked, match=r"_replay\.lock is locked by process"):
            await opened(tmp_path)
        await first.close()
        second = await opened(tmp_path)
        assert second.position.commit_ts == 9
        await second.close()

    asyncio.run(main())


def test_where_nobody_can_be_kept_out_the_slower_one_ends_and_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an object store."""
    monkeypatch.setattr(Lake, "lock", lambda *_: None)

    async def main() -> None:
        first, second = await opened(tmp_path), await opened(tmp_path)
        await segment(first, 0, 9)
        with pytest.raises(Refused, match="another replay writes"):
            await segment(second, 0, 9)
        await segment(first, 9, 18)

    asyncio.run(main())
    assert len(list(tmp_path.glob("d.t/0*.parquet"))) == 2
