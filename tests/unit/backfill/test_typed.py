"""Changes with the types of their columns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event, RowMessage
from tidelog.errors import BadInput, UnparsablePayload
from tidelog.schema.structure import ColumnStructure
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.source.typed import batches, schema


def read(shape: ColumnStructure, value: Any, b64: list[str] | None = None) -> tuple[Any, Any]:
    event = Event("c", 7, None, None, {"c": value}, b64 or [])
    body = Body(msgspec.json.encode(RowMessage("d", "t", 1, [event])), 0)
    told = table("t", shape)
    (batch,) = batches([body], told, schema(told))
    return batch.schema.field("c").type, batch.to_pylist()[0]["c"]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("tinyint(4)", -128, (pa.int8(), -128)),
        ("tinyint(3) unsigned", 255, (pa.int16(), 255)),
        ("int(10) unsigned", 4294967295, (pa.int64(), 4294967295)),
        ("bigint(20)", -(2**63), (pa.int64(), -(2**63))),
        ("bigint(20) unsigned", 2**64 - 1, (pa.decimal128(20, 0), Decimal(2**64 - 1))),
        ("bit(64)", 2**64 - 1, (pa.decimal128(20, 0), Decimal(2**64 - 1))),
        ("year(4)", 2026, (pa.int16(), 2026)),
        ("double", 0.1, (pa.float64(), 0.1)),
        ("date", "2026-11-21", (pa.date32(), date(2026, 11, 21))),
        ("date", "2026-00-00", (pa.date32(), None)),
        ("datetime(6)", "2026-11-21 10:20:30.000001", (pa.timestamp("us"), ...)),
        ("timestamp", "2026-11-21 10:20:30", (pa.timestamp("us", "UTC"), ...)),
        ("time", "-838:59:59", (pa.string(), "-838:59:59")),
        ("json", {"a": [1, None]}, (pa.string(), '{"a":[1,null]}')),
        ("enum('a','b')", "b", (pa.string(), "b")),
        ("varbinary(4)", "AP8=", (pa.binary(), b"\0\xff")),
        ("varchar(4)", None, (pa.string(), None)),
        ("json", None, (pa.string(), None)),
        ("datetime", "0000-01-01 00:00:00", (pa.timestamp("us"), None)),
        ("int(11)", "from before an ALTER", (pa.int32(), None)),
        ("int(11)", 2**40, (pa.int32(), None)),
        ("bigint(20)", 2**64, (pa.int64(), None)),
        ("bigint(20) unsigned", -1, (pa.decimal128(20, 0), None)),
        ("double", 2**60, (pa.float64(), float(2**60))),
        ("date", 7, (pa.date32(), None)),
        ("varchar(4)", 7, (pa.string(), "7")),
        ("varbinary(4)", "abc", (pa.binary(), None)),
    ],
)
def test_a_value_is_what_its_type_says(kind: str, value: Any, expected: tuple[Any, Any]) -> None:
    moments = {
        "datetime(6)": datetime(2026, 11, 21, 10, 20, 30, 1),  # noqa: DTZ001 - it has no zone
        "timestamp": datetime(2026, 11, 21, 10, 20, 30, tzinfo=UTC),
    }
    wanted = expected[0], moments.get(kind) if expected[1] is ... else expected[1]
    assert read(column("c", kind), value) == wanted


@pytest.mark.parametrize(
    ("length", "scale", "value", "expected"),
    [
        (10, 2, "-12345678.90", (pa.decimal128(10, 2), Decimal("-12345678.90"))),
        (38, 0, "9" * 38, (pa.decimal128(38, 0), Decimal("9" * 38))),
        (65, 30, "1.5", (pa.string(), "1.5")),
        (38, 0, "9" * 39, (pa.decimal128(38, 0), None)),
        (38, 37, f"-0.{'1' * 37}", (pa.decimal128(38, 37), Decimal(f"-0.{'1' * 37}"))),
        (10, 2, "123456789", (pa.decimal128(10, 2), None)),
    ],
)
def test_decimals_are_exact(length: int, scale: int, value: str, expected: tuple[Any, Any]) -> None:
    shape = column("c", f"decimal({length},{scale})", length=length, scale=scale)
    assert read(shape, value) == expected


def test_a_text_that_is_no_utf8_stays_readable() -> None:
    assert read(column("c", "varchar(4)"), "YWL/", ["c"]) == (pa.string(), "ab\ufffd")


def test_the_document_null_is_no_null() -> None:
    assert read(column("c", "json"), "bnVsbA==", ["c"]) == (pa.string(), "null")


@given(
    values=st.lists(st.none() | st.integers(-(2**70), 2**70) | st.text(max_size=3), max_size=6),
    kind=st.sampled_from(("int(11)", "bigint(20)", "bigint(20) unsigned", "varchar(4)", "double")),
)
def test_a_value_is_the_same_in_any_company(values: list[Any], kind: str) -> None:
    """One that does not fit changes how a batch is made, not what is in it."""
    shape = table("t", column("c", kind))
    events = [Event("c", 7, None, None, {"c": value}) for value in values]
    body = Body(msgspec.json.encode(RowMessage("d", "t", 1, events)), 0)
    found = [row["c"] for one in batches([body], shape, schema(shape)) for row in one.to_pylist()]
    # By their text: the number that "NAN" is, is not equal to itself.
    assert list(map(repr, found)) == [repr(read(column("c", kind), v)[1]) for v in values]


def test_a_deletion_is_the_row_as_it_was_and_a_lacking_column_is_null() -> None:
    shape = table("t", column("id", "int(11)"), column("late", "int(11)"), key=("id",))
    events = [
        Event("c", 7, {"id": 1}, None, {"id": 1}),
        Event("d", 8, {"id": 1}, {"id": 1, "late": 2}, None),
        Event("d", 5, {"id": 1}, {"id": 1, "late": 2}, None),
    ]
    body = Body(msgspec.json.encode(RowMessage("d", "t", 1, events[2:] + events[:2])), 0, after=5)
    (batch,) = batches([body], shape, schema(shape))
    assert batch.to_pylist() == [
        {"commit_ts": 7, "op": "c", "id": 1, "late": None},
        {"commit_ts": 8, "op": "d", "id": 1, "late": 2},
    ]
    chosen = pa.schema([schema(shape).field(name) for name in ("late", "op")])
    (fewer,) = batches([body], shape, chosen)
    assert fewer.to_pylist() == [{"late": None, "op": "c"}, {"late": 2, "op": "d"}]


@pytest.mark.parametrize(
    "text",
    [
        b"[",
        b'{"events":[{"op":"c","commit_ts":"7","after":{"c":1}}]}',
        b'{"events":[{"op":"c","commit_ts":7,"after":{"c":1},"b64":{}}]}',
        b'{"events":[{"op":"d","commit_ts":7,"before":[1]}]}',
    ],
)
def test_a_body_that_is_no_row_message_is_an_error_of_ours(text: bytes) -> None:
    shape = table("t", column("c", "int(11)"))
    with pytest.raises(UnparsablePayload, match="a row message can't be read: "):
        list(batches([Body(text, 0)], shape, schema(shape)))


def test_a_table_with_a_column_like_ours_is_refused() -> None:
    with pytest.raises(BadInput, match="column op"):
        schema(table("t", column("OP", "int(11)")))


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb"])
def test_a_table_with_a_column_that_no_struct_can_have_is_refused(name: str) -> None:
    with pytest.raises(BadInput, match="in its name"):
        schema(table("t", column("id", "int(11)"), column(name, "int(11)")))
