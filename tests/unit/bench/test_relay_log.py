"""The relay log of `bench replay` is what it says: the load's changes, and DDLs between them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from bench import relay_log
from bench.shapes import SHAPES, load
from tidelog.changes import RowMessage
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.survey import survey
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted

EVERY = 1000


def test_a_load_with_ddls_between(tmp_path: Path) -> None:
    made = load(SHAPES[0], 7, 0.01)
    written = asyncio.run(relay_log.write(tmp_path, made, ddl_every=EVERY))
    facts = [survey(chunk) for chunk in found(tmp_path / relay_log.DIRECTORY).chunks()]
    planned = plan(facts, Wanted(after_ts=written.after))
    assert [len(segment.ddls) for segment in planned.segments] == [0, 1, 1, 1]
    assert [segment.rows for segment in planned.segments] == [EVERY] * 4
    assert planned.until == written.end
    told = [
        (event.commit_ts, event.after["id"], event.after["version"])
        for segment in planned.segments
        for chunk in segment.chunks
        for body in bodies(chunk, segment.view)
        for event in msgspec.json.decode(body.body, type=RowMessage).events
        if event.after
    ]
    changes = [change for transaction in made.measured for change in transaction]
    assert [one[1:] for one in told] == [(one.number, one.after) for one in changes]
    times = [one[0] for one in told]
    assert times == sorted(times)
    assert len(set(times)) == len(made.measured)


def test_a_load_without_ddls(tmp_path: Path) -> None:
    made = load(SHAPES[2], 7, 0.01)
    asyncio.run(relay_log.write(tmp_path, made))
    facts = [survey(chunk) for chunk in found(tmp_path / relay_log.DIRECTORY).chunks()]
    assert sum(one.rows for one in facts) == sum(map(len, made.measured))
    assert not any(one.ddls for one in facts)
