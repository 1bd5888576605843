"""Which tables a transaction changes, against what protobuf says, in steps of any size."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures import capture
from tidelog.payload import commit_head
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation
from tidelog_pump.pull.table_ids import MAX_TABLES, Changed, TableIds

ROWS = st.lists(st.binary(max_size=60), max_size=4)
MUTATIONS = st.builds(
    TableMutation,
    table_id=st.integers(1, 1 << 50),
    inserted_rows=ROWS,
    updated_rows=ROWS,
    deleted_rows=ROWS,
    sequence=st.lists(st.sampled_from((0, 1, 4)), max_size=6),
)
VALUES = st.builds(
    PrewriteValue,
    schema_version=st.integers(0, 1 << 40),
    mutations=st.lists(MUTATIONS, max_size=6),
)


def found(data: bytes, steps: list[int]) -> Changed | None:
    """`data` fed in steps, the sizes of `steps` over and over."""
    ids, at, number = TableIds(), 0, 0
    while at < len(data):
        size = steps[number % len(steps)]
        ids.feed(memoryview(data)[at : at + size])
        at, number = at + size, number + 1
    return ids.found()


def expected(value: PrewriteValue) -> Changed | None:
    tables = frozenset(mutation.table_id for mutation in value.mutations)
    return Changed(value.schema_version, tables) if tables else None


@given(VALUES, st.binary(max_size=80), st.lists(st.integers(1, 90), min_size=1, max_size=4))
def test_it_finds_what_protobuf_finds(value: PrewriteValue, key: bytes, steps: list[int]) -> None:
    data = Binlog(prewrite_key=key, prewrite_value=value.SerializeToString()).SerializeToString()
    assert found(data, steps) == expected(value)


def test_it_finds_the_tables_of_everything_that_was_captured() -> None:
    rng, seen = random.Random(1), 0
    for which in capture.SETS:
        for binlog in capture.pulled(which):
            data = binlog.SerializeToString()
            head = commit_head(binlog.start_ts, binlog.commit_ts)
            assert data.startswith(head) or binlog.tp != 1
            got = found(data[len(head) :], [rng.randrange(1, 200) for _ in range(3)])
            if binlog.ddl_query or binlog.ddl_job_id or binlog.tp != 1:
                assert got is None
            else:
                assert got == expected(PrewriteValue.FromString(binlog.prewrite_value))
                seen += got is not None
    assert seen > 50


@given(st.binary(max_size=300), st.lists(st.integers(1, 90), min_size=1, max_size=4))
def test_any_bytes_give_the_same_in_any_steps(data: bytes, steps: list[int]) -> None:
    assert found(data, steps) == found(data, [max(1, len(data))])


def test_what_is_unusual_has_no_known_tables() -> None:
    def of(**fields: object) -> Changed | None:
        return found(Binlog(**fields).SerializeToString(), [40])  # type: ignore[arg-type]

    rows = PrewriteValue(schema_version=3, mutations=[TableMutation(table_id=5)])
    value = rows.SerializeToString()
    assert of(prewrite_value=value) == Changed(3, frozenset((5,)))
    assert of(prewrite_value=value, ddl_job_id=0, ddl_schema_state=0) == Changed(3, frozenset((5,)))
    assert of(prewrite_value=value, ddl_job_id=9) is None
    assert of(prewrite_value=value, ddl_query=b"DROP TABLE t") is None
    assert of(prewrite_value=b"") is None
    twice = Binlog(prewrite_value=value).SerializeToString() * 2
    assert found(twice, [7]) is None, "the second one would count"
    empty = PrewriteValue(mutations=[TableMutation(), *rows.mutations]).SerializeToString()
    assert of(prewrite_value=empty) is None
    later = b"\x12\x05\x12\x01x\x08\x07"  # a row, then the table id
    assert of(prewrite_value=later) is None
    many = [TableMutation(table_id=number) for number in range(1, MAX_TABLES + 2)]
    assert of(prewrite_value=PrewriteValue(mutations=many).SerializeToString()) is None
