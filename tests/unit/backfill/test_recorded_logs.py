"""The original Pump's own files, surveyed in chunks, planned and decoded: what the Drainer makes
of the same transactions, byte for byte."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from tests.fixtures import capture
from tests.fixtures.test_pump_vlog import original_log
from tests.unit.backfill.drained import Done, drained
from tests.unit.backfill.test_plan_segments import history, log
from tidelog.changes import RowMessage
from tidelog.decode.config import DecodeConfig
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.survey import survey
from tidelog_backfill.replay.plan import Plan, Segment
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted


@pytest.mark.parametrize("which", capture.SETS)
def test_files_of_the_original_come_to_what_the_drainer_publishes(
    which: capture.Set, tmp_path: Path
) -> None:
    (tmp_path / "value").mkdir()
    (tmp_path / "value" / "000000.vlog").write_bytes(original_log(which))
    facts = [survey(chunk) for chunk in found(tmp_path).chunks(chunk_bytes=50_000)]
    made = plan(facts, Wanted(segment_bytes=200_000), history=history(which))
    wanted, _ = drained(log(which).binlogs, history(which), DecodeConfig())
    assert done(made) == wanted
    assert len(facts) > 1
    assert sum(one.open for one in facts) == 0


def done(made: Plan) -> list[Done]:
    return [one for segment in made.segments for one in of_segment(segment)]


def of_segment(segment: Segment) -> list[Done]:
    ddls: list[Done] = [("ddl", one.schema_version, one.query) for one in segment.ddls]
    rows: list[tuple[int, int, str, bytes]] = []
    for chunk in segment.chunks:
        for one in bodies(chunk, segment.view):
            message = msgspec.json.decode(one.body, type=RowMessage)
            name = f"{message.db}.{message.table}"
            rows.append((message.events[0].commit_ts, one.seq, name, one.body))
    # Rows of a large transaction in a table come in several bodies.
    grouped = groupby(sorted(rows), key=lambda row: (row[2], row[0]))
    return ddls + [(*key, joined([body for *_, body in group])) for key, group in grouped]


def joined(bodies: list[bytes]) -> bytes:
    """RowMessages of one table and version as one."""
    head = bodies[0][: bodies[0].index(b"[") + 1]
    return head + b",".join(body[len(head) : -2] for body in bodies) + b"]}"
