"""The walk over a payload gives what protobuf gives, or Malformed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tidelog.rows.errors import Malformed
from tidelog.rows.payload import MutationRows, read_payload
from tidelog_proto.binlog_pb2 import Binlog, MutationType, PrewriteValue, TableMutation

I64 = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.binary(max_size=200), max_size=4)
KINDS = [MutationType.Insert, MutationType.Update, MutationType.DeletePK, MutationType.DeleteRow]

Content = tuple[int, list[bytes], list[bytes], list[bytes], list[int]]


def mutations() -> SearchStrategy[TableMutation]:
    return st.builds(
        TableMutation,
        table_id=st.none() | I64,
        inserted_rows=ROWS,
        updated_rows=ROWS,
        deleted_ids=st.lists(I64, max_size=2),
        deleted_pks=ROWS,
        deleted_rows=ROWS,
        sequence=st.lists(st.sampled_from(KINDS), max_size=200),
    )


def binlogs() -> SearchStrategy[Binlog]:
    values = st.builds(
        PrewriteValue, schema_version=st.none() | I64, mutations=st.lists(mutations(), max_size=3)
    )
    return st.builds(
        Binlog,
        start_ts=I64,
        commit_ts=I64,
        prewrite_key=st.none() | st.binary(max_size=200),
        prewrite_value=values.map(PrewriteValue.SerializeToString),
        ddl_query=st.none() | st.just(b"") | st.binary(max_size=200),
        ddl_job_id=st.none() | st.just(0) | I64,
    )


def content(made: TableMutation | MutationRows) -> Content:
    lists = (list(made.inserted_rows), list(made.updated_rows), list(made.deleted_rows))
    return made.table_id, *lists, list(made.sequence)


def by_protobuf(raw: bytes) -> tuple[bytes, int, list[Content]]:
    binlog = Binlog.FromString(raw)
    value = PrewriteValue.FromString(binlog.prewrite_value)
    return binlog.prewrite_key, value.schema_version, [content(m) for m in value.mutations]


def by_walk(raw: bytes) -> tuple[bytes, int, list[Content]]:
    found = read_payload(raw)
    return found.key, found.schema_version, [content(m) for m in found.mutations]


def is_ddl(raw: bytes) -> bool:
    binlog = Binlog.FromString(raw)
    return bool(binlog.ddl_query or binlog.ddl_job_id)


@given(binlogs())
def test_what_protobuf_wrote_is_read(binlog: Binlog) -> None:
    raw = binlog.SerializeToString()
    assert by_walk(raw) == by_protobuf(raw)
    assert read_payload(raw).is_ddl == is_ddl(raw)


@given(binlogs(), binlogs())
def test_of_a_repeated_field_the_last_counts(first: Binlog, then: Binlog) -> None:
    raw = first.SerializeToString() + then.SerializeToString()
    assert by_walk(raw) == by_protobuf(raw)
    assert read_payload(raw).is_ddl == is_ddl(raw)


def failure(read: Callable[[bytes], object], raw: bytes, error: type[Exception]) -> bool:
    try:
        read(raw)
    except error:
        return True
    return False


@given(binlogs(), st.data())
@settings(max_examples=300)
def test_bytes_that_were_changed_are_read_or_malformed(binlog: Binlog, data: st.DataObject) -> None:
    raw = bytearray(binlog.SerializeToString())
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    for candidate in (bytes(raw), cut):
        failure(read_payload, candidate, Malformed)
    if failure(by_protobuf, cut, DecodeError):
        return
    # Protobuf drops what it does not know of: kinds, groups, fields of another type.
    assert failure(read_payload, cut, Malformed) or by_walk(cut)[0] == by_protobuf(cut)[0]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("2a05", "longer than the payload"),
        ("2a", "in the middle"),
        ("2a0408011205", "longer than its PrewriteValue"),
        ("2a06120412050001", "longer than its TableMutation"),
        ("2a0712033a01800801", "in the middle of a number"),
        ("0b0c", "wire type 3"),
        ("08" + "ff" * 10 + "01", "more than 10 bytes"),
        ("2a" + "ff" * 10 + "01", "more than 10 bytes"),
    ],
)
def test_the_reason_is_told(raw: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        read_payload(bytes.fromhex(raw))


def test_a_sequence_comes_packed_or_not() -> None:
    for body in ("3a020004", "38003804"):
        raw = bytes.fromhex(body)
        raw = b"\x12%c%b" % (len(raw), raw)
        (found,) = read_payload(b"\x2a%c%b" % (len(raw), raw)).mutations
        assert found.sequence == [0, 4]
