"""Chunks of files whose rows hold what looks like records: cut anywhere, whole or damaged."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject

from tests.unit.backfill.cuts import chunk_sizes
from tests.unit.backfill.pump_logs import VERSION, commit, prewrite, rollback, write
from tests.unit.rows.tables import column
from tidelog import record, record_walk
from tidelog.changes import RowMessage
from tidelog.errors import Corrupt
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import FLAG_NOT_NULL, FLAG_PRIMARY, Name, TableInfo
from tidelog_backfill.files import records
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chain import alone, chained, in_order
from tidelog_backfill.files.chunk import Chunk, Facts
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.lost import damaged, undecided
from tidelog_backfill.files.records import FEW, OnCorrupt
from tidelog_backfill.files.survey import survey
from tidelog_backfill.files.view import Span, TableView, View
from tidelog_proto.binlog_pb2 import MutationType, TableMutation

TABLE = TableInfo(
    7,
    Name("t", "t"),
    cols=(
        column(0, "id", 8, flag=FLAG_NOT_NULL | FLAG_PRIMARY),
        column(1, "v", 252, charset="binary"),
    ),
    pk_is_handle=True,
)
CODEC = TableCodec(TABLE)
ALL = View(
    [Span(0, 1 << 60, [TableView(7, VERSION, VERSION, "d", "t", msgspec.json.encode(TABLE))])]
)
FALSE = 1000
"""Timestamps and ids of what was never written begin here."""
FILE = "000000.vlog"
LENGTH = range(4, 12)
"""The bytes of a record's header that say how long it is."""


def row(ts: int, value: bytes) -> bytes:
    """A Prewrite of one row."""
    image = CODEC.encode_insert({"id": ts, "v": b64encode(value).decode()}, None)
    return prewrite(
        ts, TableMutation(table_id=7, inserted_rows=[image], sequence=[MutationType.Insert])
    )


def segment(ts: int, count: int) -> bytes:
    """A piece of a file such as a backup in a column has it: whole transactions."""
    payloads = [
        one for at in range(ts, ts + 2 * count, 2) for one in (row(at, b"no"), commit(at, at + 1))
    ]
    return b"".join(map(record.frame, payloads))


def up_to_the_end(ts: int) -> bytes:
    """A Prewrite of a row whose value holds the beginning of a record that ends with it."""
    hidden = record.frame(commit(FALSE, FALSE + 1))
    begun = row(FALSE, b"no") + b"\x22"  # what follows is its key, the last one counts
    size = record.HEADER_BYTES + len(begun) + 1
    outer = row(ts, hidden + bytes(size))
    rest = outer[outer.index(bytes(size)) + size :]
    false = record.frame(begun + bytes((len(rest),)) + rest)
    return row(ts, hidden + false[:size])


def ones(ts: int) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.binary(max_size=40).map(lambda value: row(ts, value)),
        st.integers(1, 3).map(lambda count: row(ts, segment(FALSE, count))),
        st.just(row(ts, record.frame(record.frame(segment(FALSE, 1))))),
        st.just(row(ts, record.MAGIC.to_bytes(4, "little") * 9)),
        st.just(up_to_the_end(ts)),
    )


@st.composite
def logs(draw: st.DrawFn, most: int = 8) -> list[bytes]:
    """Transactions 2, 4, …, each committed by the record behind it."""
    times = range(2, 2 + 2 * draw(st.integers(1, most)), 2)
    return [one for ts in times for one in (draw(ones(ts)), commit(ts, ts + 1))]


def apart(directory: Path, chunk_bytes: int, on_corrupt: OnCorrupt = "stop") -> list[Facts]:
    """As a replay surveys them."""
    chunks = found(directory).chunks(chunk_bytes)
    return chained([alone(one, on_corrupt=on_corrupt) for one in chunks], on_corrupt=on_corrupt)


def ids(chunk: Chunk, on_corrupt: OnCorrupt = "stop") -> list[int]:
    return [
        event.after["id"]
        for body in bodies(chunk, ALL, on_corrupt=on_corrupt)
        for event in msgspec.json.decode(body.body, type=RowMessage).events
        if event.after is not None
    ]


@given(log=logs(), cut=st.integers(0, 16), chunk_bytes=chunk_sizes(700))
@settings(deadline=None, max_examples=80)
def test_what_a_value_holds_is_never_a_record(log: list[bytes], cut: int, chunk_bytes: int) -> None:
    with (
        TemporaryDirectory() as directory,
        patch.object(record_walk, "READ_BYTES", 100),
        patch.object(records, "CUT_BYTES", 1),
    ):
        write(Path(directory), [log[:cut], log[cut:]])
        facts = apart(Path(directory), chunk_bytes)
        assert sum(one.records for one in facts) == len(log)
        assert sum(one.rows for one in facts) == len(log) // 2
        assert facts == in_order(found(Path(directory)).chunks(chunk_bytes))
        written = [2 * at + 2 for at in range(len(log) // 2)]
        assert [one for each in facts for one in ids(each.chunk)] == written
        pieces = [piece for each in facts for piece in each.chunk.parts(1)]
        assert [one for piece in pieces for one in ids(piece)] == written
        assert len(pieces) >= sum(one.records > 2 for one in facts)


@given(log=logs(4), chunk_bytes=chunk_sizes(700), data=st.data())
@settings(deadline=None, max_examples=100)
def test_damage_is_named_or_counted(log: list[bytes], chunk_bytes: int, data: DataObject) -> None:
    frames = list(map(record.frame, log))
    bounds = [sum(map(len, frames[:at])) for at in range(len(frames) + 1)]
    damaged = data.draw(st.integers(0, len(log) - 1))
    place = data.draw(st.integers(0, len(frames[damaged]) - 1))
    with TemporaryDirectory() as directory:
        write(Path(directory), [log, [commit(90, 91)]])
        file = Path(directory) / "value" / FILE
        content = bytearray(file.read_bytes())
        content[bounds[damaged] + place] ^= data.draw(st.integers(1, 255))
        file.write_bytes(content)
        with pytest.raises(Corrupt, match=f"{FILE} at offset {bounds[damaged]}: "):
            apart(Path(directory), chunk_bytes)
        facts = apart(Path(directory), chunk_bytes, "skip")
        rows = [one for each in facts for one in ids(each.chunk, "skip")]
        lost_id = 2 + 2 * (damaged // 2)
        left = [ts for ts in range(2, 2 + len(log), 2) if ts != lost_id]
        if place in LENGTH:  # then nothing tells what is within it from what follows
            claims = record.parse_header(content, bounds[damaged])
            end = bounds[damaged] + record.HEADER_BYTES + claims.length if claims else 0
            if end in bounds:  # and all that lies before another one passes for its own
                left = [ts for ts in left if not damaged < ts - 2 < bounds.index(end)]
            assert [one for one in rows if one < FALSE] == left
            assert sum(one.skipped for one in facts) > 0
        else:
            assert rows == left
            at = [place for each in facts for place in each.skipped_at]
            assert at == [(bounds[damaged], len(frames[damaged]))]
            assert sum(one.skipped for one in facts) == len(frames[damaged])


def test_a_chunk_that_begins_in_a_value_is_surveyed_again(tmp_path: Path) -> None:
    log = [row(2, segment(FALSE, 2)), commit(2, 3)]
    write(tmp_path, [log])
    false_at = record.frame(log[0]).index(segment(FALSE, 1))
    (whole,) = found(tmp_path).chunks()
    chunks = [
        msgspec.structs.replace(whole, end=false_at),
        msgspec.structs.replace(whole, begin=false_at, exact=False),
    ]
    with pytest.raises(Corrupt, match=f"{FILE} at offset"):
        survey(chunks[1])
    first, second = chained(map(alone, chunks))
    assert (first.rows, first.first_ts, second.rows, second.records) == (1, 3, 0, 1)
    assert second.chunk.begin == second.begin == first.end == len(record.frame(log[0]))


def test_a_verdict_that_a_value_holds_is_none(tmp_path: Path) -> None:
    hidden = b"".join(map(record.frame, (rollback(4), row(4, b"no"))))
    log = [row(2, hidden), commit(2, 3), row(4, b"x"), commit(4, 5)]
    write(tmp_path, [log])
    (whole,) = found(tmp_path).chunks()
    at = record.frame(log[0]).index(hidden[:20])
    chunks = [
        msgspec.structs.replace(whole, end=at),
        msgspec.structs.replace(whole, begin=at, exact=False),
    ]
    facts = chained(alone(one, on_corrupt="skip") for one in chunks)
    assert [one for each in facts for one in ids(each.chunk)] == [2, 4]


def test_a_payload_that_is_none_is_named_or_counted(tmp_path: Path) -> None:
    log = [row(2, b"x"), b"\x08\x09\x10\x05", commit(2, 3)]
    write(tmp_path, [log])
    at = len(record.frame(log[0]))
    with pytest.raises(Corrupt, match=f"{FILE} at offset {at}: binlogs of type 9"):
        apart(tmp_path, 30)
    facts = apart(tmp_path, 30, "skip")
    size = len(record.frame(log[1]))
    assert [place for one in facts for place in one.skipped_at] == [(at, size)]
    assert [one for each in facts for one in ids(each.chunk, "skip")] == [2]


def test_what_is_lost_is_told_with_the_first_places() -> None:
    def facts(path: str, count: int) -> Facts:
        places = list(range(10, 10 + count))
        return Facts(
            Chunk("segment", path, 0, 99),
            0,
            99,
            open=count,
            open_at=places,
            skipped=5 * count,
            skipped_at=[(place, 5) for place in places],
        )

    assert list(damaged([facts("a", 0)])) == []
    (skipped,) = damaged([facts("a", 1), facts("b", 1)])
    left_open = undecided([facts("a", 1), facts("b", 1)])
    assert left_open.startswith("2 Prewrites have neither Commit nor Rollback")
    assert left_open.endswith(" (a at offset 10; b at offset 10)")
    assert skipped.endswith(" (a at offset 10, 5 bytes; b at offset 10, 5 bytes)")
    many = undecided([facts("a", FEW + 1)])
    assert many.endswith(f"; a at offset {9 + FEW}; …)")
