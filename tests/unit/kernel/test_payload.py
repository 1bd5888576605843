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
LIMIT = 64 << 10
"""Up to here protobuf parses a payload."""


def varint(value: int, size: int = 0) -> bytes:
    """In `size` bytes, more than it needs, or in as few as it needs."""
    septets = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    septets += [0] * (size - len(septets))
    return bytes([*(septet | 0x80 for septet in septets[:-1]), septets[-1]])


def number(field: int, value: int, size: int = 0) -> bytes:
    return varint(field << 3) + varint(value, size)


def some_bytes(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def up_to(size: int, *parts: bytes) -> bytes:
    """Filled up by rows before the last part."""
    room = size - sum(map(len, parts)) - 1
    rows = b"v" * (room - len(varint(room)))
    return b"".join([*parts[:-1], some_bytes(5, rows), parts[-1]])


LONG_TP = number(1, 0, 10)
KEY = some_bytes(4, b"k")
NO_FIELD = number(1 << 39, 1)
"""Protobuf knows no such field."""


def kept_as_taken(data: bytes) -> payload.Facts:
    """Taken, and again when it is read back, with the same facts: so a Pump can start."""
    facts = classify(data)
    again = classify(facts.payload)
    assert again[:3] == facts[:3]
    assert bytes(again.payload) == bytes(facts.payload)
    assert again.body == facts.body <= 255
    return facts


@pytest.mark.parametrize(
    "data",
    [
        LONG_TP * 60 + number(2, 100) + KEY,
        up_to(LIMIT + 90, number(2, 100), LONG_TP * 10),
        up_to(LIMIT + 2, number(2, 100), b""),
        up_to(LIMIT, b"", number(2, 100)),
    ],
)
def test_what_is_taken_is_taken_again_when_it_is_read_back(data: bytes) -> None:
    facts = kept_as_taken(data)
    assert facts[:3] == (Kind.PREWRITE, 100, 0)
    before, stored = Binlog.FromString(data), Binlog.FromString(bytes(facts.payload))
    assert stored.prewrite_key == before.prewrite_key
    assert stored.prewrite_value == before.prewrite_value


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x00" * 200 + number(2, 100) + KEY,
        # It is written anew in fewer bytes, which protobuf refuses.
        up_to(LIMIT + 126, NO_FIELD, number(2, 100) * 98 + b"\x08\x00"),
        up_to(LIMIT + 90, NO_FIELD, number(2, 100) + LONG_TP * 10),
        # Written anew it has a field more.
        number(2, 100) + KEY * 62 + number(2, 100),
    ],
)
def test_what_could_not_be_read_back_is_refused(data: bytes) -> None:
    with pytest.raises(UnparsablePayload):
        classify(data)


def test_a_payload_of_very_many_fields_is_refused() -> None:
    """Each is read by itself, while the process does nothing else."""
    many = number(2, 5) + number(9, 0) * (1 << 16)
    for read in (classify, payload.head, payload.write_request):
        with pytest.raises(UnparsablePayload, match="more than 64 fields"):
            read(many)


PADDED = st.sampled_from([0, 10])
FIELDS = st.one_of(
    st.builds(number, st.just(1), st.sampled_from([0, 0, 1, 2]), PADDED),
    st.builds(number, st.just(2), st.sampled_from([5, 6]), PADDED),
    st.builds(number, st.just(3), st.sampled_from([0, 5, 9]), PADDED),
    st.builds(number, st.sampled_from([7, 9, 1 << 39]), st.integers(0, 300), PADDED),
    st.builds(some_bytes, st.sampled_from([4, 9]), st.binary(max_size=9)),
)
REPEATED = st.lists(
    st.builds(lambda field, times: field * times, FIELDS, st.sampled_from([1, 2, 25])), max_size=5
)


@given(REPEATED.map(b"".join), REPEATED.map(b"".join), st.none() | st.integers(-9, 600))
def test_whatever_is_taken_is_taken_again_when_it_is_read_back(
    before: bytes, behind: bytes, above: int | None
) -> None:
    """Fields in any order and often, numbers in more bytes than they need; `above`: how far above
    what protobuf parses."""
    parts = before + number(2, 5), behind
    data = b"".join(parts) if above is None else up_to(LIMIT + above, *parts)
    try:
        classify(data)
    except UnparsablePayload:
        return
    kept_as_taken(data)


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


def test_a_prewrite_key_that_is_cut_within_is_none() -> None:
    """TiKV would be asked about another key, and might roll back what is committed."""
    whole = number(1, 0) + some_bytes(4, b"key")
    assert payload.prewrite_key(whole) == b"key"
    assert [payload.prewrite_key(whole[:-cut]) for cut in (1, 2, 3)] == [b""] * 3
