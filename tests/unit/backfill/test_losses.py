"""What a reader of a damaged log can count: all that on-corrupt=skip passes by."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import AsyncMock, patch

import pytest
from structlog.testing import capture_logs

from tests.unit.backfill.pump_logs import commit
from tests.unit.backfill.pump_logs import write as write_pump
from tests.unit.backfill.relay_logs import of_several, write
from tests.unit.backfill.test_chain import row
from tests.unit.backfill.test_source_tasks import history
from tidelog import record
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chunk import Body, Chunk
from tidelog_backfill.files.records import FEW
from tidelog_backfill.files.view import View
from tidelog_backfill.source import losses
from tidelog_backfill.source.losses import DAMAGED, ELSEWHERE, MISSING, Loss
from tidelog_backfill.source.options import Options, parse
from tidelog_backfill.source.pushdown import Window
from tidelog_backfill.source.tasks import lost, tasks

__all__ = ["history"]
LAST = 181


def asked(directory: Path, **more: str) -> Options:
    given = {name.replace("_", "-"): value for name, value in more.items()}
    return parse({"path": str(directory), **given})


def relay(directory: Path, *damaged: int) -> tuple[Path, list[tuple[int, int]]]:
    """Batches of two changes each; the places of those records in which a bit is wrong."""
    write(
        directory,
        *((after, of_several(after, after + 1, after + 4)) for after in range(101, LAST, 4)),
    )
    path = directory / "relay-000000"
    data = bytearray(path.read_bytes())
    found = record.split(bytes(data)).records
    places = [(found[at][0], record.HEADER_BYTES + len(found[at][1])) for at in damaged]
    for offset, _ in places:
        data[offset + record.HEADER_BYTES] ^= 1
    path.write_bytes(data)
    return path, places


def test_each_place_and_the_time_that_is_missing(tmp_path: Path) -> None:
    path, places = relay(tmp_path, 5, 9)
    damage = [Loss(DAMAGED, str(path), offset, size) for offset, size in places]
    missing = [Loss(MISSING, after_ts=113, until_ts=117), Loss(MISSING, after_ts=129, until_ts=133)]
    assert lost(asked(tmp_path), Window()) == damage + missing
    assert lost(asked(tmp_path), Window(0, 120)) == damage + missing[:1]


def test_no_byte_is_left_uncounted(tmp_path: Path) -> None:
    _, places = relay(tmp_path, *range(2, 20))
    found = lost(asked(tmp_path), Window())
    assert sum(one.bytes or 0 for one in found) == sum(size for _, size in places)


def test_places_beyond_the_first_few(tmp_path: Path) -> None:
    _, places = relay(tmp_path, *range(2, 21, 2))
    assert len(places) > FEW + 1
    found = [one for one in lost(asked(tmp_path), Window()) if one.why != MISSING]
    assert [one.why for one in found] == [DAMAGED] * (FEW + 1) + [ELSEWHERE]
    assert sum(one.bytes or 0 for one in found) == sum(size for _, size in places)


def test_a_reading_tells_before_it_begins(tmp_path: Path) -> None:
    _, ((_, size),) = relay(tmp_path, 4)
    with capture_logs() as told:
        tasks(asked(tmp_path, on_corrupt="skip"), Window())
    (line,) = [one for one in told if one["event"] == "left out"]
    assert (line["bytes"], line["log_level"]) == (size, "warning")
    assert '"lost"' in line["hint"]


def test_nothing_is_told_of_a_whole_log(tmp_path: Path) -> None:
    relay(tmp_path)
    with capture_logs() as told:
        tasks(asked(tmp_path, on_corrupt="skip"), Window())
    assert (told, lost(asked(tmp_path), Window())) == ([], [])
    assert losses.batch([], losses.SCHEMA).num_rows == 0


@pytest.mark.parametrize("more", [{}, {"ddl_history": "file:x"}])
def test_damage_of_a_pumps_log_is_counted_once(
    tmp_path: Path, history: SchemaTracker, more: dict[str, str]
) -> None:
    log = [row(2, b"x"), commit(2, 3), row(4, b"y"), commit(4, 5), row(6, b"z"), commit(6, 7)]
    write_pump(tmp_path, [log])
    (path,) = (tmp_path / "value").iterdir()
    data = bytearray(path.read_bytes())
    frames = [record.frame(one) for one in log]
    at = sum(map(len, frames[:2]))
    data[at + record.HEADER_BYTES] ^= 1
    path.write_bytes(data)
    with patch("tidelog_backfill.source.tasks.schema_history", AsyncMock(return_value=history)):
        found = lost(asked(tmp_path, **more), Window())
        with capture_logs() as told:
            made = tasks(asked(tmp_path, ddl_history="file:x", on_corrupt="skip"), Window())
    assert found[0] == Loss(DAMAGED, str(path), at, len(frames[2]))
    assert sum(one.bytes or 0 for one in found) == len(frames[2])
    assert [one["bytes"] for one in told if one["event"] == "left out"] == [len(frames[2])]
    shown = [one.start_ts for task in made if task.view for one in read(task.chunk, task.view)]
    assert shown == [2, 6]


def read(chunk: Chunk, view: View) -> list[Body]:
    return list(bodies(chunk, view, on_corrupt="skip"))
