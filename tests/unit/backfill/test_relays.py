"""Relay logs: the bodies of whole batches, wherever a chunk ends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.backfill.cuts import chunk_sizes
from tests.unit.backfill.relay_logs import body, dump, of_several, write
from tests.unit.pump.driven import Machine, drive
from tests.unit.relay.relay_rig import CLUSTER_ID, FEED, STRUCTURES, opened, piece, rows, whole
from tidelog import record
from tidelog.changes import DdlMessage, RowMessage
from tidelog.errors import Corrupt
from tidelog.record import HEADER_BYTES
from tidelog.relay import Piece, Whole
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chunk import FoundDdl
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.records import OnCorrupt
from tidelog_backfill.files.survey import survey
from tidelog_backfill.files.view import Span, View
from tidelog_proto.relay_pb2 import RelayRecord

ALL = View([Span(0, 1 << 60)])
_json = msgspec.json.encode


def told(
    directory: Path, chunk_bytes: int, view: View = ALL, on_corrupt: OnCorrupt = "stop"
) -> list[int]:
    """commit_ts of each row that a view shows."""
    return sorted(
        event.commit_ts
        for chunk in found(directory).chunks(chunk_bytes)
        for body in bodies(chunk, view, on_corrupt=on_corrupt)
        for event in msgspec.json.decode(body.body, type=RowMessage).events
        if event.commit_ts > body.after
    )


@st.composite
def relays(draw: st.DrawFn) -> tuple[list[Piece | Whole], list[int]]:
    """What is appended, and commit_ts of all rows."""
    items: list[Piece | Whole] = []
    expected: list[int] = []
    for ts in range(101, 101 + draw(st.integers(1, 8))):
        size = draw(st.integers(10, 600))
        pieces = draw(st.integers(0, 3))
        given_up = range(draw(st.integers(0, 2)))
        items += [piece(number, rows(ts, size), attempt=f"up{ts}") for number in given_up]
        items += [piece(number, rows(ts, size), rows(ts, 30, 1)) for number in range(pieces)]
        here = [rows(ts, size, 2)] if not pieces else []
        items.append(whole(ts, ts - 1, *here, pieces=pieces))
        expected += [ts] * (2 * pieces or 1)
    if draw(st.booleans()):
        items.append(piece(0, rows(200), attempt="never closed"))
    return items, expected


@given(relay=relays(), chunk_bytes=chunk_sizes(3000), file_bytes=st.integers(300, 5000))
@settings(deadline=None, max_examples=100)
def test_each_row_of_a_whole_batch_is_in_one_chunk(
    relay: tuple[list[Piece | Whole], list[int]], chunk_bytes: int, file_bytes: int
) -> None:
    items, expected = relay
    machine = Machine()
    log = opened(machine, 100, file_bytes)
    for item in items:
        drive(log.append([item], STRUCTURES))
    with TemporaryDirectory() as directory:
        dump(machine, Path(directory))
        assert told(Path(directory), chunk_bytes) == expected
        facts = [survey(chunk) for chunk in found(directory).chunks(chunk_bytes)]
        assert sum(one.rows for one in facts) == len(expected)
        assert not any(one.gaps for one in facts)
        batches = [one for one in facts if one.last_ts]
        assert [one.after for one in batches] == sorted(one.after for one in batches)
        middle = View([Span(0, 102), Span(104, 105), Span(105, 106)])
        wanted = [ts for ts in expected if ts in (101, 102, 105, 106)]
        assert told(Path(directory), chunk_bytes, middle) == wanted


@pytest.mark.parametrize("chunk_bytes", [1, 5, HEADER_BYTES - 1])
def test_chunks_that_lie_within_a_header_change_nothing(tmp_path: Path, chunk_bytes: int) -> None:
    write(tmp_path, (101, of_several(101, 105, 110)), (110, of_several(110, 115)))
    assert told(tmp_path, chunk_bytes) == [105, 110, 115]


def test_a_relay_says_whose_it_is(tmp_path: Path) -> None:
    machine = Machine()
    drive(opened(machine, 100).append([whole(101, 100, rows(101))], STRUCTURES))
    dump(machine, tmp_path)
    read = found(tmp_path)
    assert (read.kind, read.feed, read.cluster_id) == ("relay", FEED, CLUSTER_ID)


def test_a_view_cuts_within_a_body(tmp_path: Path) -> None:
    write(tmp_path, (101, of_several(101, 105, 110, 115)))
    assert told(tmp_path, 1 << 20, View([Span(104, 112)])) == [105, 110]
    assert told(tmp_path, 1 << 20, View([Span(0, 105), Span(112, 120)])) == [105, 115]
    assert told(tmp_path, 1 << 20, View([Span(0, 120)], ignored_txns=frozenset((110,)))) == [
        105,
        115,
    ]
    (chunk,) = found(tmp_path).chunks()
    (cut,) = bodies(chunk, View([Span(106, 112)]))
    assert cut.body == body(110)


def test_only_wanted_tables_are_shown(tmp_path: Path) -> None:
    write(tmp_path, (101, of_several(101, 105)))
    assert told(tmp_path, 1 << 20, View([Span(0, 120)], only=("d.t1",))) == [105]
    assert told(tmp_path, 1 << 20, View([Span(0, 120)], only=("d.t2",))) == []


def test_what_is_not_shown_of_a_span_is_counted(tmp_path: Path) -> None:
    write(tmp_path, (101, of_several(101, 105, 110, 115)), (115, of_several(115, 115, 120)))
    (chunk,) = found(tmp_path).chunks()

    def left_out(**view: Any) -> dict[str, int]:
        counted: Counter[str] = Counter()
        list(bodies(chunk, View([Span(104, 110), Span(112, 120)], **view), left_out=counted))
        return dict(+counted)

    ignored = frozenset((105, 111, 115))
    assert left_out() == {}
    assert left_out(ignored_txns=ignored) == {"ignored_txn": 2}
    assert left_out(only=("d.t2",)) == {"not_wanted": 4}
    assert left_out(lacking=frozenset(("d.t1.1",))) == {"no_structure": 4}
    assert left_out(lacking=frozenset(("d.t1.2",)), ignored_txns=ignored) == {"ignored_txn": 2}
    both = left_out(only=("d.t2",), ignored_txns=ignored)
    assert both == {"not_wanted": 2, "ignored_txn": 2}


def test_what_a_batch_before_had_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, (101, of_several(101, 105, 110)), (110, of_several(101, 110, 115)))
    assert told(tmp_path, 1 << 20) == [105, 110, 115]


def test_facts_tell_gaps_ddls_and_runs_between_them(tmp_path: Path) -> None:
    ddl = DdlMessage(112, "ALTER", "add_column", "d", 9)
    alone = Whole("a", 112, 111, of_several(111, 112).marker, [], [], [_json(ddl)], frozenset())
    write(
        tmp_path,
        (101, of_several(101, 105, 108)),
        (108, of_several(108, 109)),
        (111, alone),
        (112, of_several(112, 115)),
    )
    (chunk,) = found(tmp_path).chunks()
    facts = survey(chunk)
    assert (facts.after, facts.gaps, facts.ddls) == (
        100,
        [(109, 111)],
        [FoundDdl(112, 111, _json(ddl))],
    )
    assert [(run.first_ts, run.last_ts, run.rows) for run in facts.runs] == [
        (105, 109, 3),
        (115, 115, 1),
    ]
    assert facts.structures == [("d", _json(STRUCTURES["d", "t1", 1]))]
    for run in facts.runs:
        narrow = msgspec.structs.replace(chunk, begin=run.begin, end=run.end)
        assert sum(1 for _ in bodies(narrow, ALL)) == (2 if run.first_ts == 105 else 1)


@settings(max_examples=50)
@given(st.data(), st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_rows_are_counted_as_markers_tell_them(data: st.DataObject, sizes: list[int]) -> None:
    """As they are where markers don't: some events stand in two batches."""
    told: list[tuple[int, Whole]] = []
    untold: list[tuple[int, Whole]] = []
    reached = 101
    for size in sizes:
        first = reached + data.draw(st.integers(0, 1))
        times = range(first, first + size + 1)
        told.append((reached, of_several(reached, *times, tables=("d.t1",))))
        untold.append((reached, of_several(reached, *times)))
        reached = times[-1]
    facts = []
    for batches in (told, untold):
        with TemporaryDirectory() as directory:
            write(Path(directory), *batches)
            (chunk,) = found(directory).chunks()
            one = survey(chunk)
            facts.append((one.rows, one.size, one.first_ts, one.last_ts, one.versions, one.runs))
    assert facts[0][:5] == facts[1][:5]
    assert [run.rows for run in facts[0][5]] == [run.rows for run in facts[1][5]]


def test_a_record_of_another_kind_is_named(tmp_path: Path) -> None:
    write(tmp_path)
    file = tmp_path / "relay-000000"
    size = file.stat().st_size
    for payload in (RelayRecord().SerializeToString() or b"\x08\x01", b"\xff"):
        with file.open("ab") as out:
            out.write(record.frame(payload))
        (chunk,) = found(tmp_path).chunks()
        with pytest.raises(Corrupt, match=f"relay-000000 at offset {size}: "):
            survey(chunk)
