"""A DataFrame has a transaction once, whichever logs and chunks hold it."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from io import BytesIO
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import AsyncMock, patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.unit.backfill.cuts import chunk_sizes
from tests.unit.backfill.pump_logs import commit, rollback, write
from tests.unit.backfill.test_chain import ids, row
from tests.unit.backfill.test_source_tasks import history
from tidelog import payload, record
from tidelog.errors import Conflict
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files import segments
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chain import in_order
from tidelog_backfill.files.chunk import Chunk, Facts
from tidelog_backfill.files.held import Held
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.records import OnCorrupt
from tidelog_backfill.source import changes, typed
from tidelog_backfill.source.options import Options
from tidelog_backfill.source.pushdown import Window
from tidelog_backfill.source.tasks import newest_structure, tasks

__all__ = ["history"]
ONE = [row(10, b"x"), commit(10, 11)]


def write_pumps(directory: Path, *logs: list[bytes]) -> list[Path]:
    paths = [directory / f"pump-{number}" for number in range(len(logs))]
    for path, log in zip(paths, logs, strict=True):
        write(path, [log])
    return paths


def once(
    paths: list[Path],
    chunk_bytes: int,
    on_corrupt: OnCorrupt = "stop",
    window: Window | None = None,
) -> list[Facts]:
    window = window or Window()
    held = Held(BytesIO(), window.after_ts, window.until_ts)
    chunks = found(*paths).chunks(chunk_bytes)
    return held.once(in_order(chunks, on_corrupt=on_corrupt, held=held))


def shown(facts: list[Facts], on_corrupt: OnCorrupt = "stop") -> list[list[int]]:
    """Ids of each chunk's rows."""
    return [ids(one.chunk, on_corrupt) for one in facts]


def flat(rows: Iterable[list[int]]) -> list[int]:
    return list(chain.from_iterable(rows))


def test_what_two_pumps_hold_is_one_row(tmp_path: Path, history: SchemaTracker) -> None:
    paths = write_pumps(tmp_path, ONE, [*ONE, row(20, b"y"), commit(20, 21)])
    options = Options(paths=tuple(map(str, paths)), ddl_history="file:x")
    with (
        patch("tidelog_backfill.source.tasks.schema_history", AsyncMock(return_value=history)),
        capture_logs() as logged,
    ):
        made = tasks(options, Window())
        shape = newest_structure(Options(paths=options.paths, table="d.t"))
    shows = [bodies(task.chunk, task.view) for task in made if task.view]
    rows = [one for each in shows for batch in changes.batches(each) for one in batch.to_pylist()]
    assert [(one["commit_ts"], one["op"]) for one in rows] == [(11, "c"), (21, "c")]
    shows = [bodies(task.chunk, task.view) for task in made if task.view]
    batches = [one for each in shows for one in typed.batches(each, shape, typed.schema(shape))]
    assert [ts for one in batches for ts in one["commit_ts"].to_pylist()] == [11, 21]
    assert [one["count"] for one in logged if "a second time" in one["event"]] == [1]


def test_what_one_log_has_twice_is_one_row(tmp_path: Path) -> None:
    (path,) = write_pumps(tmp_path, [*ONE, *ONE])
    for chunk_bytes in (len(record.frame(ONE[0])), 1 << 20):
        assert flat(shown(once([path], chunk_bytes))) == [10]


def test_only_what_is_committed_and_whole_counts(tmp_path: Path) -> None:
    """What a log rolled back, or lost, another shows."""
    paths = write_pumps(tmp_path, [ONE[0], rollback(10)], ONE, ONE)
    assert shown(once(paths, 1 << 20)) == [[], [10], []]
    file = paths[1] / "value" / "000000.vlog"
    data = bytearray(file.read_bytes())
    data[record.HEADER_BYTES] ^= 1
    file.write_bytes(data)
    assert shown(once(paths, 1 << 20, "skip"), "skip") == [[], [], [10]]


def test_a_verdict_that_is_far_counts(tmp_path: Path) -> None:
    """Such a chunk is surveyed a second time."""
    far = [payload.fake(ts) for ts in range(20, 40)]
    paths = write_pumps(tmp_path, [ONE[0], *far, ONE[1]], ONE)
    with patch.object(segments, "NEAR", 20):
        facts = once(paths, 60)
        assert flat(shown(facts)) == [10]
        assert ids(facts[0].chunk) == [10]


def test_a_copy_of_a_whole_log_is_one_range(tmp_path: Path) -> None:
    log = [one for ts in range(2, 40, 2) for one in (row(ts, b"x"), commit(ts, ts + 1))]
    first, second = once(write_pumps(tmp_path, log, log), 1 << 20)
    assert first.chunk.again == ()
    assert len(second.chunk.again) == 1
    assert shown([first, second]) == [list(range(2, 40, 2)), []]


def test_nothing_is_kept_of_other_times(tmp_path: Path) -> None:
    log = [one for ts in range(2, 40, 2) for one in (row(ts, b"x"), commit(ts, ts + 1))]
    paths = write_pumps(tmp_path, log, log)
    _, second = once(paths, 1 << 20, window=Window(10, 20))
    assert ids(second.chunk) == [ts for ts in range(2, 40, 2) if not 10 < ts + 1 <= 20]
    file = BytesIO()
    held = Held(file, 100, 200)
    facts = in_order(found(*paths).chunks(), held=held)
    assert (file.getvalue(), held.once(facts)) == (b"", facts)


def test_two_transactions_of_one_commit_ts_are_refused(tmp_path: Path) -> None:
    paths = write_pumps(tmp_path, ONE, [row(9, b"y"), commit(9, 11)])
    with pytest.raises(Conflict, match="two transactions have the commit_ts 11"):
        once(paths, 1 << 20)


def test_what_is_told_last_of_a_chunk_counts() -> None:
    chunks = [Chunk("segment", path, 0, 99) for path in ("a", "b")]
    held = Held(BytesIO(), 0, 99)
    for chunk in chunks:
        held.tell(chunk, array("q", [11, 10, 5, 8, 7, 6]))
    held.tell(chunks[0], array("q", [11, 10, 5]))
    told = held.once([Facts(chunk, 0, 99) for chunk in chunks])
    assert [one.chunk.again for one in told] == [(), ((5, 6),)]
    held.tell(chunks[0], array("q"))
    told = held.once([Facts(chunk, 0, 99) for chunk in chunks])
    assert [one.chunk.again for one in told] == [(), ()]


@given(
    places=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.booleans()), max_size=25),
    chunk_bytes=chunk_sizes(400),
    part_bytes=st.integers(1, 400),
)
@settings(deadline=None, max_examples=100)
def test_each_is_shown_once(
    places: list[tuple[int, int, bool]], chunk_bytes: int, part_bytes: int
) -> None:
    """Of ten transactions some in any of three logs, there perhaps again; with its Commit at once,
    or at the log's end."""
    logs: list[list[bytes]] = [[row(1, b""), rollback(1)] for _ in range(3)]
    late: list[list[bytes]] = [[], [], []]
    for log, number, at_once in places:
        ts = 10 + 2 * number
        logs[log].append(row(ts, b"x"))
        (logs if at_once else late)[log].append(commit(ts, 100 - number))
    with TemporaryDirectory() as directory:
        paths = write_pumps(Path(directory), *(a + b for a, b in zip(logs, late, strict=True)))
        facts = once(paths, chunk_bytes)
        wanted = sorted({10 + 2 * number for _, number, _ in places})
        assert sorted(flat(shown(facts))) == wanted
        parts = [part for one in facts for part in one.chunk.parts(part_bytes)]
        assert set(flat(map(ids, parts))) == set(wanted)
