"""Binlog bytes: what is read without building them, and the Commit made of a Prewrite."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.pump.rig import commit, prewrite, rollback
from tidelog import payload
from tidelog.errors import UnparsablePayload
from tidelog.payload import Kind, classify
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.pump_pb2 import WriteBinlogReq

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
    assert payload.head(given_bytes) == facts[:3]
    made = payload.commit_head(start_ts, start_ts + gap) + given_bytes[facts.body :]
    assert payload.committed(given_bytes, start_ts + gap) == made
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
    assert payload.head(mixed) == facts[:3]
    made = payload.commit_head(9, 12) + bytes(facts.payload)[facts.body :]
    read = Binlog.FromString(made)
    assert (read.tp, read.start_ts, read.commit_ts) == (1, 9, 12)
    assert (len(read.prewrite_value), read.prewrite_key) == (size, b"k")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (commit(5, 9), (Kind.COMMIT, 5, 9)),
        (rollback(5), (Kind.ROLLBACK, 5, 0)),
        (payload.fake(7), (Kind.FAKE, 7, 7)),
        (payload.verdict(5, 0, b"k"), (Kind.ROLLBACK, 5, 0)),
        (payload.verdict(5, 8, b"k"), (Kind.COMMIT, 5, 8)),
        (b"\x10\x05\x08\x00", (Kind.PREWRITE, 5, 0)),
    ],
)
def test_kinds(data: bytes, expected: payload.Head) -> None:
    assert classify(data)[:3] == expected
    assert payload.head(data) == expected
    assert payload.head(memoryview(data)) == expected


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
    for read in (classify, payload.head):
        with pytest.raises(UnparsablePayload):
            read(data)
        with pytest.raises(UnparsablePayload):
            read(data + b"\x0b" * 70_000)


def test_a_large_request_is_cut_without_a_copy() -> None:
    body = prewrite(5, b"v" * 100_000)
    request = WriteBinlogReq(clusterID=7, payload=body).SerializeToString()
    cluster_id, view = payload.write_request(request)
    assert cluster_id == 7
    assert isinstance(view, memoryview)
    assert view.obj is request
    assert classify(view).start_ts == 5


@pytest.mark.parametrize("head", [b"\x08", b"\x08\x80", b"\x1a\x80", b"\x10\x05\x1a"])
def test_a_prewrite_key_that_is_cut_off_is_none(head: bytes) -> None:
    """The upstream is asked by start_ts alone then."""
    assert payload.prewrite_key(head) == b""
