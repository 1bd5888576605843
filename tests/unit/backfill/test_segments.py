"""Pumps' logs: transactions, paired wherever a chunk ends, whole or damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.unit.backfill.cuts import chunk_sizes
from tests.unit.backfill.pump_logs import commit, ddl, inserts, prewrite, rollback, view, write
from tests.unit.rows.tables import column
from tidelog import payload, record, record_walk
from tidelog.changes import RowMessage
from tidelog.decode.errors import Undecodable
from tidelog.errors import Corrupt, InvariantBroken
from tidelog.record import HEADER_BYTES
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import FLAG_NOT_NULL, FLAG_PRIMARY, Name, TableInfo
from tidelog_backfill.files import records, segments
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chain import in_order
from tidelog_backfill.files.chunk import Facts, FoundDdl, FoundVersion, Run
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.records import LogFile, OnCorrupt
from tidelog_backfill.files.segment_bodies import SLICE_ROWS
from tidelog_backfill.files.view import TableView, View
from tidelog_proto.binlog_pb2 import MutationType, TableMutation

ALL = view(0, 1 << 60)
READ = LogFile.read


def rows_of(
    directory: Path, chunk_bytes: int, on_corrupt: OnCorrupt = "stop"
) -> list[tuple[int, int, int]]:
    """commit_ts, place, id of each row."""
    rows = []
    facts = facts_of(directory, chunk_bytes, on_corrupt)
    for chunk in (part for one in facts for part in one.chunk.parts(1)):
        for body in bodies(chunk, ALL, on_corrupt=on_corrupt):
            message = msgspec.json.decode(body.body, type=RowMessage)
            for at, event in enumerate(message.events, body.seq):
                assert event.after is not None
                rows.append((event.commit_ts, at, event.after["id"]))
    return sorted(rows)


def facts_of(directory: Path, chunk_bytes: int, on_corrupt: OnCorrupt = "stop") -> list[Facts]:
    return in_order(found(directory).chunks(chunk_bytes), on_corrupt=on_corrupt)


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[list[bytes]], list[tuple[int, int, int]], list[int]]:
    """Segments, the rows in them, and which Prewrites have no verdict."""
    fates = draw(st.lists(st.sampled_from(["commit", "rollback", "open", "twice"]), max_size=12))
    records, rows, left_open = list[tuple[float, bytes]](), [], list[int]()
    for number, fate in enumerate(fates):
        start_ts, commit_ts = 1 + number, 1000 - number
        at = draw(st.floats(0, 100))
        later = draw(st.floats(at, 200))
        size = draw(st.integers(0, 40))
        begin = prewrite(start_ts, inserts([number, number + 100], text="x" * size))
        records.append((at, begin))
        if fate == "twice":
            records.append((draw(st.floats(at, later)), begin))
        if fate == "rollback":
            records.append((later, rollback(start_ts)))
        elif fate == "open":
            left_open.append(start_ts)
        else:
            records.append((later, commit(start_ts, commit_ts)))
            rows += [(commit_ts, 0, number), (commit_ts, 1, number + 100)]
        if draw(st.booleans()):
            records.append((at, payload.fake(start_ts)))
    ordered = [one for _, one in sorted(records, key=lambda one: one[0])]
    cuts = sorted(draw(st.lists(st.integers(0, len(ordered)), max_size=2)))
    files = [ordered[a:b] for a, b in zip([0, *cuts], [*cuts, len(ordered)], strict=True)]
    return files, sorted(rows), left_open


@given(log=logs(), chunk_bytes=chunk_sizes(400))
@settings(deadline=None, max_examples=150)
def test_each_transaction_is_in_one_chunk_with_its_verdict(
    log: tuple[list[list[bytes]], list[tuple[int, int, int]], list[int]], chunk_bytes: int
) -> None:
    files, rows, left_open = log
    with TemporaryDirectory() as directory:
        write(Path(directory), files)
        facts = facts_of(Path(directory), chunk_bytes)
        # A Prewrite written twice stands in two chunks at most: later stages drop the double.
        assert sorted(set(rows_of(Path(directory), chunk_bytes))) == rows
        assert sum(one.records for one in facts) == sum(map(len, files))
        assert sum(one.open for one in facts) == len(left_open)
        open_ts = [one.open_ts for one in facts if one.open_ts]
        assert min(open_ts, default=0) == min(left_open, default=0)
        assert {(one.first_ts, one.last_ts) for f in facts for one in f.runs} or not rows


@pytest.mark.parametrize("chunk_bytes", [1, 5, HEADER_BYTES - 1])
def test_chunks_that_lie_within_a_header_change_nothing(tmp_path: Path, chunk_bytes: int) -> None:
    payloads = [payload.fake(1), *commits(2, inserts([1])), prewrite(4, inserts([2]))]
    write(tmp_path, [payloads, [commit(4, 9)]])
    assert rows_of(tmp_path, chunk_bytes) == [(3, 0, 1), (9, 0, 2)]
    assert sum(one.records for one in facts_of(tmp_path, chunk_bytes)) == 5


def test_the_newest_fake_says_up_to_where_an_idle_pump_is(tmp_path: Path) -> None:
    files = [[payload.fake(5), prewrite(10, inserts([1])), payload.fake(30)], [payload.fake(25)]]
    write(tmp_path, files)
    assert [one.fake_ts for one in facts_of(tmp_path, 1 << 20)] == [30, 25]


@given(data=st.data(), chunk_bytes=chunk_sizes(400))
@settings(deadline=None, max_examples=150)
def test_damage_is_named_or_skipped_and_the_rest_is_there(
    data: DataObject, chunk_bytes: int
) -> None:
    payloads = [
        one for ts in range(2, 40, 2) for one in (prewrite(ts, inserts([ts])), commit(ts, ts + 1))
    ]
    frames = [record.frame(one) for one in payloads]
    bounds = [sum(map(len, frames[:at])) for at in range(len(frames) + 1)]
    hit = data.draw(st.integers(0, bounds[-1] - 1))
    damaged = max(at for at, bound in enumerate(bounds) if bound <= hit)
    with TemporaryDirectory() as directory:
        write(Path(directory), [payloads, [commit(90, 91)]])
        file = Path(directory) / "value" / "000000.vlog"
        content = bytearray(file.read_bytes())
        content[hit] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
        with pytest.raises(Corrupt) as stopped:
            facts_of(Path(directory), chunk_bytes)
        assert f"000000.vlog at offset {bounds[damaged]}: " in stopped.value.message
        with pytest.raises(Corrupt):
            rows_of(Path(directory), chunk_bytes)
        facts = facts_of(Path(directory), chunk_bytes, "skip")
        assert sum(one.skipped for one in facts) == len(frames[damaged])
        lost = 2 + 2 * (damaged // 2)
        found_rows = rows_of(Path(directory), chunk_bytes, "skip")
        assert found_rows == [(ts + 1, 0, ts) for ts in range(2, 40, 2) if ts != lost]
        assert sum(one.open for one in facts) == damaged % 2


def test_facts_tell_ddls_versions_and_runs_by_commit_ts(tmp_path: Path) -> None:
    payloads = [
        prewrite(10, inserts([1, 2])),
        prewrite(11, inserts([3]), inserts([4], table_id=8), version=6),
        commit(11, 12),
        ddl(20, 77),
        commit(20, 25),
        commit(10, 30),
    ]
    write(tmp_path, [payloads])
    (facts,) = facts_of(tmp_path, 1 << 20)
    at = [sum(len(record.frame(one)) for one in payloads[:n]) for n in range(2)]
    sizes = [len(payloads[n]) for n in range(2)]
    assert facts.ddls == [FoundDdl(25, 20, payload.commit_head(20, 25) + payloads[3][4:])]
    assert facts.versions == [
        FoundVersion(5, 30, 30, 2, 7),
        FoundVersion(6, 12, 12, 1, 7),
        FoundVersion(6, 12, 12, 1, 8),
    ]
    assert facts.runs == [
        Run(12, 12, 2, sizes[1], at[1], at[1] + 1),
        Run(30, 30, 2, sizes[0], at[0], at[0] + 1),
    ]
    assert (facts.first_ts, facts.last_ts, facts.rows, facts.size) == (12, 30, 4, sum(sizes))


def commits(ts: int, *mutations: object) -> list[bytes]:
    return [prewrite(ts, *mutations), commit(ts, ts + 1)]  # type: ignore[arg-type]


def test_a_large_mutation_is_told_in_slices(tmp_path: Path) -> None:
    ids = range(2 * SLICE_ROWS + 3)
    write(tmp_path, [commits(4, inserts([9]), inserts(ids))])
    (chunk,) = found(tmp_path).chunks()
    assert [one.seq for one in bodies(chunk, ALL)] == [0, 1, 1 + SLICE_ROWS, 1 + 2 * SLICE_ROWS]
    assert rows_of(tmp_path, 1 << 20) == [(5, 0, 9), *((5, 1 + one, one) for one in ids)]


def test_a_view_shows_its_spans_and_its_tables(tmp_path: Path) -> None:
    payloads = [one for ts in (10, 20, 30) for one in commits(ts, inserts([ts], 8), inserts([ts]))]
    write(tmp_path, [payloads])
    (chunk,) = found(tmp_path).chunks()
    shown = msgspec.structs.replace(view(11, 21).spans[0], dropped={8: "filtered"})
    (body,) = bodies(chunk, msgspec.structs.replace(ALL, spans=[shown]))
    message = msgspec.json.decode(body.body, type=RowMessage)
    assert (message.table, message.schema_version, body.seq) == ("t7", 5, 1)
    assert [event.after for event in message.events] == [{"id": 20, "v": "x"}]
    with pytest.raises(InvariantBroken, match="table id 8 at version 5"):
        list(bodies(chunk, ALL))
    ignored = msgspec.structs.replace(
        view(0, 99, table_ids=(7, 8)), ignored_txns=frozenset((11, 31))
    )
    assert len(list(bodies(chunk, ignored))) == 2


MARKS = TableInfo(
    9,
    Name("_drainer_repl_mark", "_drainer_repl_mark"),
    cols=(
        column(0, "id", 8, flag=FLAG_NOT_NULL | FLAG_PRIMARY),
        column(1, "channel_id", 8),
    ),
    pk_is_handle=True,
)


def mark(channel_id: int) -> TableMutation:
    row = TableCodec(MARKS).encode_insert({"id": 1, "channel_id": channel_id}, None)
    return TableMutation(table_id=9, inserted_rows=[row], sequence=[MutationType.Insert])


def test_what_is_not_shown_is_counted_as_the_drainer_counts_it(tmp_path: Path) -> None:
    payloads = [
        *commits(10, mark(1), inserts([1, 2])),
        *commits(20, mark(2), inserts([3])),
        *commits(30, inserts([4]), inserts([5, 6], 8)),
        *commits(40, inserts([7])),
        *commits(50, inserts([8])),
        *(ddl(60, 5), commit(60, 61)),
    ]
    write(tmp_path, [payloads])
    (chunk,) = found(tmp_path).chunks()
    (span,) = view(0, 70).spans
    marks = [TableView(9, 5, 5, "retl", "marks", msgspec.json.encode(MARKS))]
    shown = msgspec.structs.replace(span, dropped={8: "truncated", 9: "mark"}, marks=marks)
    ignored = frozenset((41, 61, 99))
    counted: Counter[str] = Counter()
    told = bodies(chunk, View([shown], (), 1, ignored), left_out=counted)
    times = [msgspec.json.decode(one.body, type=RowMessage).events[0].commit_ts for one in told]
    assert times == [21, 31, 51]
    assert counted == {"loopback": 1, "mark": 1, "truncated": 1, "ignored_txn": 1}


def test_rows_that_their_structure_does_not_fit_name_file_and_offset(tmp_path: Path) -> None:
    bad = inserts([1])
    bad.inserted_rows[0] = b"\x08\x02\x08"
    write(tmp_path, [[commit(8, 9), *commits(10, bad)]])
    (chunk,) = found(tmp_path).chunks()
    with pytest.raises(
        Undecodable, match=f"000000.vlog at offset {len(record.frame(commit(8, 9)))}: "
    ):
        list(bodies(chunk, ALL))


@st.composite
def odd_logs(draw: st.DrawFn) -> list[bytes]:
    """Each transaction with up to three verdicts, also before its Prewrite, anywhere."""
    placed = list[tuple[float, bytes]]()
    anywhere = st.floats(0, 100)
    for start_ts in range(1, 1 + draw(st.integers(1, 6))):
        begin = prewrite(start_ts, inserts([start_ts], text="x" * draw(st.integers(0, 40))))
        verdict = st.sampled_from([rollback(start_ts), *(commit(start_ts, 50 + n) for n in (1, 2))])
        verdicts = draw(st.lists(verdict, max_size=3))
        again = draw(st.booleans()) and len(set(verdicts)) < 2
        placed += [(draw(anywhere), one) for one in (*verdicts, *([begin] * (1 + again)))]
    return [one for _, one in sorted(placed, key=lambda one: one[0])]


def paired(log: Sequence[bytes]) -> tuple[set[tuple[int, int, int]], set[int]]:
    """As the Pump does: the first verdict counts. Rows, and which Prewrites have none."""
    verdicts: dict[int, int] = {}
    prewrites = set[int]()
    for kind, start_ts, commit_ts in map(payload.head, log):
        if kind == payload.PREWRITE:
            prewrites.add(start_ts)
        else:
            verdicts.setdefault(start_ts, commit_ts)
    rows = {(verdicts[one], 0, one) for one in prewrites if verdicts.get(one)}
    return rows, prewrites - verdicts.keys()


@given(
    log=odd_logs(),
    cut=st.integers(0, 20),
    chunk_bytes=chunk_sizes(600),
    near=st.sampled_from([0, 1, 60, 200, 1000]),
)
@settings(deadline=None, max_examples=300)
def test_the_first_verdict_counts_wherever_it_and_the_cuts_are(
    log: list[bytes], cut: int, chunk_bytes: int, near: int
) -> None:
    rows, left_open = paired(log)
    with (
        TemporaryDirectory() as directory,
        patch.object(segments, "NEAR", near),
        patch.object(records, "CUT_BYTES", 1),
        patch.object(record_walk, "READ_BYTES", 100),
    ):
        write(Path(directory), [log[:cut], log[cut:]])
        facts = facts_of(Path(directory), chunk_bytes)
        assert set(rows_of(Path(directory), chunk_bytes)) == rows
        assert {start for one in facts for start in one.waiting} == left_open
        times = [one for each in facts for run in each.runs for one in (run.first_ts, run.last_ts)]
        assert {(min(times), max(times))} == {(min(rows)[0], max(rows)[0])} if rows else not times


@pytest.mark.parametrize("near", [1 << 20, 1000])
def test_prewrites_that_never_close_are_not_looked_for_again_and_again(
    tmp_path: Path, near: int
) -> None:
    """Every chunk has one: what is read is a few times the log, and not the square of it."""
    log = [prewrite(at, inserts([at], text="x" * 900)) for at in range(1, 101)]
    write(tmp_path, [log])
    chunks = found(tmp_path).chunks(1000)
    read = 0

    def counting(file: LogFile, offset: int, length: int) -> bytes:
        nonlocal read
        data = READ(file, offset, length)
        read += len(data)
        return data

    with (
        patch.object(segments, "NEAR", near),
        patch.object(record_walk, "READ_BYTES", 2000),
        patch.object(LogFile, "read", counting),
    ):
        facts = in_order(chunks)
        assert sum(one.open for one in facts) == len(log)
        surveyed, read = read, 0
        assert not [one for each in facts for one in bodies(each.chunk, ALL)]
    size = chunks[-1].end
    assert read < 10 * size
    if near == 1000:
        assert surveyed < 10 * size
