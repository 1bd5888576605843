"""What partitions the data source reads: rows and records as they were written, none from within
a row's value."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import AsyncMock, patch

import pytest
from msgspec import json

from tests.unit.backfill import pb_logs
from tests.unit.backfill.pump_logs import VERSION, commit, write
from tests.unit.backfill.test_chain import FALSE, TABLE, row, segment
from tests.unit.schema.jobs import create_schema, job
from tidelog import record
from tidelog.changes import RowMessage
from tidelog.schema import jobs as kinds
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.source import raw_records
from tidelog_backfill.source.options import Options
from tidelog_backfill.source.pushdown import Window
from tidelog_backfill.source.tasks import tasks

LOG = [row(2, segment(FALSE, 3)), commit(2, 3), row(4, b"x"), commit(4, 5)]


def options(directory: Path, **more: object) -> Options:
    return Options(paths=(str(directory),), chunk_bytes=60, **more)  # type: ignore[arg-type]


def test_raw_records_are_those_that_were_written(tmp_path: Path) -> None:
    write(tmp_path, [LOG[:2], LOG[2:]])
    found = [
        one
        for task in tasks(options(tmp_path, rows="raw"), Window())
        for batch in raw_records.batches(task.chunk, raw_records.SCHEMA, "stop")
        for one in batch.to_pylist()
    ]
    assert [one["payload"] for one in found] == LOG
    assert [one["offset"] for one in found[:2]] == [0, len(record.frame(LOG[0]))]


@pytest.fixture
def history() -> SchemaTracker:
    tracker = SchemaTracker()
    tracker.add_jobs(
        [create_schema(1, 1, "d"), job(VERSION, kinds.CREATE_TABLE, TABLE, schema=(1, "d"))]
    )
    return tracker


def test_rows_are_those_that_were_written(tmp_path: Path, history: SchemaTracker) -> None:
    write(tmp_path, [LOG])
    with patch("tidelog_backfill.source.tasks.schema_history", AsyncMock(return_value=history)):
        made = tasks(options(tmp_path), Window())
    assert len(made) > 1
    told = [one.start_ts for task in made if task.view for one in bodies(task.chunk, task.view)]
    assert told == [2, 4]


def test_what_a_drainer_wrote_again_is_read_once(tmp_path: Path) -> None:
    """Within a file, and behind a rotation."""
    rows = [pb_logs.inserted(at * pb_logs.SECOND, "t", id=at) for at in range(1, 5)]
    pb_logs.write(tmp_path, *rows[:2], *rows[:3], number=0)
    pb_logs.write(tmp_path, *rows[1:], number=1)
    told = [
        event.after
        for task in tasks(options(tmp_path), Window())
        if task.view
        for body in bodies(task.chunk, task.view)
        for event in json.decode(body.body, type=RowMessage).events
    ]
    assert told == [{"id": 1}, {"id": 2}, {"id": 3}, {"id": 4}]
