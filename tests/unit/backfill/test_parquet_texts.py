"""Texts in a replay's Parquet files: those of which the stream could only tell the bytes, too."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path

import msgspec
import pytest
from pyarrow import parquet

from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event, RowMessage
from tidelog.downstreams.writing import rule_of
from tidelog.errors import Stopped
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.replay.parquet import ParquetTarget
from tidelog_backfill.replay.plan import Segment
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.shuffle import Shuffler
from tidelog_backfill.replay.write import Wrote

COLUMNS = column("id", "int(11)"), column("t", "varchar(9)"), column("b", "varbinary(9)")
SEGMENT = Segment(0, 9, [], View([Span(0, 9)]), [], {})


def coded(data: bytes) -> str:
    return b64encode(data).decode()


def written(directory: Path, *events: Event, key: tuple[str, ...] = ("id",)) -> Wrote:
    structure = table("t", *COLUMNS, key=key)
    route = routing([("d", structure, rule_of(structure))], 1)
    shuffler = Shuffler(route, 0, 9)
    shuffler.add(Body(msgspec.json.encode(RowMessage("d", "t", 1, list(events))), 0))

    async def step() -> Wrote:
        target = ParquetTarget(str(directory), "f")
        writing, done = await target.step(SEGMENT, route)
        assert not done
        return await writing.written(0, iter(list(shuffler.take())))

    return asyncio.run(step())


def files(directory: Path) -> list[Path]:
    """Those that a reader takes for whole."""
    return [one for one in directory.rglob("*.parquet") if not one.name.startswith("_")]


def test_a_text_that_is_utf8_is_a_text_again(tmp_path: Path) -> None:
    """It shares its event with an image that is not, and of which the file has the key only."""
    after = {"id": 1, "t": coded("ü".encode()), "b": coded(b"\xff")}
    marked = Event("u", 5, {"id": 1}, {"id": 1, "t": coded(b"\xff")}, after, ["t", "b"])
    assert written(tmp_path, marked).rows == 1
    (file,) = files(tmp_path)
    (row,) = parquet.read_table(file).to_pylist()
    assert (row["_op"], row["_commit_ts"], row["t"], row["b"]) == ("u", 5, "ü", b"\xff")


def test_without_a_key_the_row_as_it_was_is_written_too(tmp_path: Path) -> None:
    before, after = ({"id": 1, "t": coded(text), "b": None} for text in (b"\xff", b"x"))
    with pytest.raises(Stopped, match="a text of column t is not UTF-8"):
        written(tmp_path, Event("u", 5, None, before, after, ["t"]), key=())
    assert files(tmp_path) == []


@pytest.mark.parametrize("key", [("id",), ()])
def test_one_that_is_none_stops_and_leaves_no_file(tmp_path: Path, key: tuple[str, ...]) -> None:
    told_key = {"id": 1} if key else None
    bad = Event("c", 5, told_key, None, {"id": 1, "t": coded(b"\xff"), "b": None}, ["t"])
    with pytest.raises(Stopped, match="a text of column t is not UTF-8") as raised:
        written(tmp_path, bad, key=key)
    assert "leave the table out" in raised.value.hint
    assert files(tmp_path) == []
    good = Event("c", 5, told_key, None, {"id": 1, "t": "x", "b": None})
    assert written(tmp_path, good, key=key).rows == 1
    assert len(list(tmp_path.rglob("*.parquet"))) == 1, "what was left of the first try is gone"
