"""Binlog bytes: what is read without building them, and the Commit made of a Prewrite."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pump.rig import commit, prewrite, rollback
from tests.unit.pump.test_original_files import varint
from tidelog.errors import UnparsablePayload
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.pump_pb2 import WriteBinlogReq
from tidelog_pump.index import keys
from tidelog_pump.log import payload
from tidelog_pump.log.payload import Kind, classify
from tidelog_pump.log.place import Place

ts = st.integers(1, (1 << 62) - 1)


@given(
    start_ts=ts,
    gap=ts,
    key=st.binary(max_size=40),
    value=st.binary(min_size=1, max_size=40),
    large=st.booleans(),
)
def test_head_and_body_make_the_prewrite_a_commit(
    start_ts: int, gap: int, key: bytes, value: bytes, *, large: bool
) -> None:
    value = value * 70_000 if large else value
    given_bytes = prewrite(start_ts, value, key)
    facts = classify(given_bytes)
    assert (facts.kind, facts.start_ts, facts.commit_ts) == (Kind.PREWRITE, start_ts, 0)
    assert bytes(facts.payload) == given_bytes
    made = payload.commit_head(start_ts, start_ts + gap) + given_bytes[facts.body :]
    expected = Binlog.FromString(given_bytes)
    expected.tp = 1  # type: ignore[assignment]
    expected.commit_ts = start_ts + gap
    assert made == expected.SerializeToString()
    assert payload.prewrite_key(given_bytes[:200]) == key


@pytest.mark.parametrize("size", [4, 100_000])
def test_fields_in_another_order_are_put_in_order(size: int) -> None:
    rows = Binlog(prewrite_value=b"x" * size, prewrite_key=b"k").SerializeToString()
    mixed = rows + Binlog(start_ts=9, commit_ts=0, tp=0).SerializeToString()  # type: ignore[arg-type]
    facts = classify(mixed)
    made = payload.commit_head(9, 12) + bytes(facts.payload)[facts.body :]
    read = Binlog.FromString(made)
    assert (read.tp, read.start_ts, read.commit_ts) == (1, 9, 12)
    assert (len(read.prewrite_value), read.prewrite_key) == (size, b"k")


@pytest.mark.parametrize("size", [4, 100_000])
def test_fields_that_come_many_times_are_stored_once(size: int) -> None:
    """Else where the rows begin would not fit into the index: a record that nobody can index, in a
    log that every start reads."""
    again = Binlog(tp=0, start_ts=1 << 60).SerializeToString() * 15  # type: ignore[arg-type]
    rows = Binlog(prewrite_value=b"x" * size, prewrite_key=b"k").SerializeToString()
    facts = classify(again + rows)
    assert (facts.kind, facts.start_ts) == (Kind.PREWRITE, 1 << 60)
    keys.pack_place(Place(0, 0, len(facts.payload), facts.body))
    made = Binlog.FromString(payload.commit_head(1 << 60, 1 << 61) + facts.payload[facts.body :])
    assert (made.tp, made.start_ts, made.commit_ts) == (1, 1 << 60, 1 << 61)
    assert (len(made.prewrite_value), made.prewrite_key) == (size, b"k")
    assert classify(facts.payload) == facts


FIELDS = st.sampled_from([b"\x08", b"\x10", b"\x18", b"\x88\x80\x00", b"\x22", b"\x2a", b"\x40"])


@given(st.lists(st.tuples(FIELDS, st.integers(0, (1 << 63) - 1)), max_size=70))
def test_what_is_taken_fits_into_the_index_and_is_read_back_the_same(
    fields: list[tuple[bytes, int]],
) -> None:
    data = b""
    for tag, value in fields:
        number = value % 3 if tag in (b"\x08", b"\x88\x80\x00") else value
        data += tag + (b"\x01x" if tag in (b"\x22", b"\x2a") else varint(number))
    try:
        facts = classify(data)
    except UnparsablePayload:
        return
    keys.pack_place(Place(0, 0, len(facts.payload), facts.body))
    assert classify(facts.payload) == facts
    read = Binlog.FromString(data)
    assert (facts.kind == 0, facts.start_ts) == (read.tp == 0, read.start_ts)
    made = Binlog.FromString(payload.commit_head(5, 9) + bytes(facts.payload)[facts.body :])
    assert (made.prewrite_key, made.prewrite_value) == (read.prewrite_key, read.prewrite_value)


@pytest.mark.parametrize("size", [200, 1 << 20])
def test_a_payload_of_many_small_fields_is_refused_before_they_are_listed(size: int) -> None:
    head = Binlog(tp=0, start_ts=5).SerializeToString()  # type: ignore[arg-type]
    tracemalloc.start()
    try:
        with pytest.raises(UnparsablePayload, match="more than 64 fields"):
            classify(memoryview(head + b"\x40\x00" * size))
        assert tracemalloc.get_traced_memory()[1] < (8 << 20)
    finally:
        tracemalloc.stop()


def test_kinds() -> None:
    assert classify(commit(5, 9))[:3] == (Kind.COMMIT, 5, 9)
    assert classify(rollback(5))[:3] == (Kind.ROLLBACK, 5, 0)
    assert classify(payload.fake(7))[:3] == (Kind.FAKE, 7, 7)
    assert classify(payload.verdict(5, 0, b"k"))[:3] == (Kind.ROLLBACK, 5, 0)
    assert classify(payload.verdict(5, 8, b"k"))[:3] == (Kind.COMMIT, 5, 8)


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\xff" * 30,
        b"\x08\x09\x10\x05",  # a type nobody knows must not pass for a Prewrite
        b"\x08\x03\x10\x05",
        b"\x08\x01\x10\x05\x18\x05",
        b"\x08\x00\x10\x00",
        b"\x0a\x02\x10\x05\x10\x05",
        b"\x08\x00\x10\x05\x2a\x7fxx",
    ],
)
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(UnparsablePayload):
        classify(data)
    with pytest.raises(UnparsablePayload):
        classify(data + b"\x0b" * 70_000)


def test_a_large_request_is_cut_without_a_copy() -> None:
    body = prewrite(5, b"v" * 100_000)
    request = WriteBinlogReq(clusterID=7, payload=body).SerializeToString()
    cluster_id, view = payload.write_request(request)
    assert cluster_id == 7
    assert isinstance(view, memoryview)
    assert view.obj is request
    assert classify(view).start_ts == 5
