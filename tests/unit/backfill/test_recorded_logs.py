"""The original Pump's own files, surveyed in chunks, planned and decoded: what the Drainer makes
of the same transactions, byte for byte."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path

import msgspec
import pytest

from tests.fixtures import capture
from tests.fixtures.test_pump_vlog import original_log
from tests.unit.backfill.drained import Done, drained
from tests.unit.backfill.test_plan_segments import FILTERED, history, log
from tidelog.changes import RowMessage
from tidelog.decode.config import DecodeConfig
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.survey import survey
from tidelog_backfill.replay.plan import Plan, Segment
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted


@pytest.mark.parametrize("which", capture.SETS)
@pytest.mark.parametrize("rules", ["none", "a table", "no deletes", "ignored"])
def test_files_of_the_original_come_to_what_the_drainer_publishes(
    which: capture.Set, rules: str, tmp_path: Path
) -> None:
    config = FILTERED[rules] if rules != "ignored" else DecodeConfig(ignore_txn_commit_ts=every(7))
    (tmp_path / "value").mkdir()
    (tmp_path / "value" / "000000.vlog").write_bytes(original_log(which))
    facts = [survey(chunk) for chunk in found(tmp_path).chunks(chunk_bytes=50_000)]
    made = plan(facts, Wanted(segment_bytes=200_000), history=history(which), config=config)
    wanted, dropped = drained(log(which).binlogs, history(which), config)
    left_out = Counter(made.left_out)
    assert done(made, left_out) == wanted
    assert dict(+left_out) == {why: count for why, count in dropped.items() if why != "empty"}
    assert len(facts) > 1
    assert sum(one.open for one in facts) == 0


def every(step: int) -> tuple[int, ...]:
    """commit_ts of each so many transactions."""
    return tuple(sorted(one.commit_ts for which in capture.SETS for one in log(which).binlogs))[
        ::step
    ]


def done(made: Plan, left_out: Counter[str]) -> list[Done]:
    return [one for segment in made.segments for one in of_segment(segment, left_out)]


def of_segment(segment: Segment, left_out: Counter[str]) -> list[Done]:
    ddls: list[Done] = [("ddl", one.schema_version, one.query) for one in segment.ddls]
    rows: list[tuple[int, int, str, bytes]] = []
    for chunk in segment.chunks:
        for one in bodies(chunk, segment.view, left_out=left_out):
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
