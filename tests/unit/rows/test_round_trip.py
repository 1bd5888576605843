"""encode -> decode over all types and handles, and what any other bytes give."""

from __future__ import annotations

from base64 import b64encode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.unit.rows.tables import (
    SAMPLES,
    TEXT,
    clustered_table,
    column,
    hidden_handle_table,
    int_key_table,
    mutation,
    one,
)
from tidelog.rows.errors import BadValue, RowCorrupt
from tidelog.rows.table_codec import TableCodec
from tidelog.rows.values import Value
from tidelog.schema.model import FLAG_NOT_NULL, FLAG_PRIMARY
from tidelog_proto.binlog_pb2 import TableMutation

ALL = TableCodec(int_key_table(*(info for info, _ in SAMPLES)))
PLAIN = TableCodec(hidden_handle_table(column(0, "a", 3), column(1, "b", 15, charset="utf8mb4")))

Row = dict[str, Value]


def rows_of_all_types() -> SearchStrategy[Row]:
    fields: dict[str, SearchStrategy[Value]] = {"id": st.integers(-(2**63), 2**63 - 1)}
    fields |= {info.name.text: st.none() | values for info, values in SAMPLES}
    return st.fixed_dictionaries(fields)


def failure(codec: TableCodec, made: TableMutation) -> RowCorrupt | None:
    try:
        codec.decode(made)
    except RowCorrupt as error:
        return error
    return None


@given(rows_of_all_types(), rows_of_all_types())
def test_all_types_survive_insert_update_and_delete(old: Row, new: Row) -> None:
    made = mutation(
        (ALL.encode_insert(old, None),),
        (ALL.encode_update(old, new, None),),
        (ALL.encode_delete(new, None),),
    )
    insert, update, delete = ALL.decode(made)
    assert (insert.op, insert.before, insert.after) == ("c", None, old)
    assert (update.op, update.before, update.after) == ("u", old, new)
    assert (delete.op, delete.before, delete.after) == ("d", new, None)
    binary = next(
        info.name.text
        for info, _ in SAMPLES
        if info.type.Charset == "binary" and info.type.Tp == 15
    )
    assert insert.b64 == ((binary,) if old[binary] is not None else ())


@given(rows_of_all_types())
def test_columns_come_in_the_tables_order(row: Row) -> None:
    change = one(ALL, mutation((ALL.encode_insert(row, None),)))
    assert change.after is not None
    assert list(change.after) == [c.name.text for c in ALL.table.columns]


@given(st.binary(max_size=200), st.sampled_from(["inserts", "updates", "deletes"]))
@settings(max_examples=500)
def test_any_bytes_give_rows_or_row_corrupt(raw: bytes, which: str) -> None:
    for codec in (ALL, PLAIN):
        error = failure(codec, mutation(**{which: (raw,)}))
        assert error is None or (error.table_id == 7 and error.index == 0 and error.reason)


@given(rows_of_all_types(), st.data())
@settings(max_examples=300)
def test_a_changed_row_gives_rows_or_row_corrupt(row: Row, data: st.DataObject) -> None:
    raw = bytearray(ALL.encode_update(row, row, None))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))
    for candidate in (bytes(raw), bytes(raw[:cut])):
        error = failure(ALL, mutation(updates=(candidate,)))
        assert error is None or error.list_name == "updated_rows"


def test_an_unsigned_handle_above_2_to_63_is_exact() -> None:
    codec = TableCodec(int_key_table(unsigned=True))
    row: Row = {"id": 2**64 - 1}
    raw = codec.encode_insert(row, None)
    # The handle -1 as a zig-zag varint, then a lone NIL: the table has no other column.
    assert raw == bytes.fromhex("080100")
    assert one(codec, mutation((raw,))).after == row


def test_a_hidden_handle_travels_as_column_minus_one_and_is_not_shown() -> None:
    row: Row = {"a": 5, "b": "x"}
    raw = PLAIN.encode_delete(row, 9)
    assert raw.endswith(bytes.fromhex("08010812"))
    assert one(PLAIN, mutation(deletes=(raw,))).before == row
    with pytest.raises(BadValue, match="_tidb_rowid"):
        PLAIN.encode_insert(row, None)


@given(st.integers(-5, 5), TEXT, TEXT, st.none() | st.integers(0, 9))
def test_a_clustered_key_is_read_from_the_row_or_the_handle(
    number: int, varchar: str, char: str, value: int | None
) -> None:
    flag = FLAG_NOT_NULL | FLAG_PRIMARY
    codec = TableCodec(
        clustered_table(
            ((0, -1), (1, -1), (2, -1)),
            column(0, "n", 3, flag=flag),
            column(1, "v", 15, flag=flag, charset="utf8mb4"),
            column(2, "c", 254, flag=flag, charset="utf8mb4"),
            column(3, "x", 3),
        )
    )
    assert codec.key_columns == ("n", "v", "c")
    row: Row = {"n": number, "v": varchar, "c": char, "x": value}
    raw = codec.encode_insert(row, None)
    change = one(codec, mutation((raw,)))
    assert change.after == row
    assert list(change.after or ()) == ["n", "v", "c", "x"]


def test_a_prefix_of_a_clustered_key_is_not_taken_for_the_value() -> None:
    flag = FLAG_NOT_NULL | FLAG_PRIMARY
    codec = TableCodec(clustered_table(((0, 2),), column(0, "v", 15, flag=flag, charset="utf8mb4")))
    raw = codec.encode_insert({"v": "long"}, None)
    assert one(codec, mutation((raw,))).after == {"v": "long"}
    handle_only = bytes.fromhex("02046c6f00")
    with pytest.raises(RowCorrupt, match="prefix"):
        codec.decode(mutation((handle_only,)))


def test_text_that_is_not_utf8_makes_both_images_base64() -> None:
    row: Row = {"a": 1, "b": "text"}
    bad: Row = {"a": 1, "b": b64encode(b"\xff\xfe").decode()}
    raw = PLAIN._image(row, 1, (), False) + PLAIN._image(bad, 1, ("b",), False)
    change = one(PLAIN, mutation(updates=(raw,)))
    assert change.b64 == ("b",)
    assert change.before == {"a": 1, "b": b64encode(b"text").decode()}
    assert change.after == bad


def test_json_null_is_not_sql_null() -> None:
    codec = TableCodec(int_key_table(column(1, "j", 245)))
    null: Row = {"id": 1, "j": b64encode(b"null").decode()}
    raw = codec.encode_update({"id": 1, "j": {"a": [1, 1.0]}}, null, None)
    sql_null = one(codec, mutation((codec.encode_insert({"id": 1, "j": None}, None),)))
    assert sql_null.after == {"id": 1, "j": None}
    raw = codec._image({"id": 1, "j": {"a": [1, 1.0]}}, None, (), False)
    raw += codec._image(null, None, ("j",), False)
    change = one(codec, mutation(updates=(raw,)))
    assert change.b64 == ("j",)
    assert change.after == null
    assert change.before == {"id": 1, "j": b64encode(b'{"a":[1,1.0]}').decode()}
