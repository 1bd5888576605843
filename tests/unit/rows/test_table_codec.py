"""Missing columns, columns in change, keys, and mutations that don't add up."""

from __future__ import annotations

import pytest

from tests.cycles import left_in_cycles
from tests.unit.rows.tables import (
    column,
    hidden_handle_table,
    index,
    int_key_table,
    mutation,
    one,
)
from tidelog.rows.errors import BadValue, RowCorrupt
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import FLAG_NOT_NULL, ColumnInfo
from tidelog_proto.binlog_pb2 import TableMutation

NN = FLAG_NOT_NULL
ID_ONLY = TableCodec(int_key_table())


@pytest.mark.parametrize(
    ("info", "value", "b64"),
    [
        (column(1, "c", 3), None, ()),
        (column(1, "c", 3, flag=NN), 0, ()),
        (column(1, "c", 3, flag=NN, origin="9"), 9, ()),
        (column(1, "c", 3, flag=NN, origin=9), 9, ()),
        (column(1, "c", 246, flag=NN, origin=1.5, flen=10, decimal=2), "1.50", ()),
        (column(1, "c", 5, flag=NN), 0.0, ()),
        (column(1, "c", 4, origin="0.1"), 0.1, ()),
        (column(1, "c", 246, flag=NN, flen=10, decimal=2), "0.00", ()),
        (column(1, "c", 246, origin="9", flen=10, decimal=2), "9.00", ()),
        (column(1, "c", 15, flag=NN, charset="utf8mb4"), "", ()),
        (column(1, "c", 15, origin="ee", charset="utf8mb4"), "ee", ()),
        (column(1, "c", 15, flag=NN), "", ("c",)),
        (column(1, "c", 15, origin="ee"), "ZWU=", ("c",)),
        (column(1, "c", 7, flag=NN, decimal=3), "0000-00-00 00:00:00.000", ()),
        (column(1, "c", 12, origin="2024-01-02 03:04:05", decimal=0), "2024-01-02 03:04:05", ()),
        (column(1, "c", 10, flag=NN), "0000-00-00", ()),
        (column(1, "c", 11, flag=NN, decimal=0), "00:00:00", ()),
        (column(1, "c", 247, flag=NN, elems=("p", "q"), charset="utf8mb4"), "p", ()),
        (column(1, "c", 247, origin="q", elems=("p", "q"), charset="utf8mb4"), "q", ()),
        (column(1, "c", 248, flag=NN, elems=("p", "q"), charset="utf8mb4"), "", ()),
        (column(1, "c", 245, flag=NN), "bnVsbA==", ("c",)),
        (column(1, "c", 245, flag=NN, origin="null"), "bnVsbA==", ("c",)),
        (column(1, "c", 245, origin='{"a": 1}'), {"a": 1}, ()),
        (column(1, "c", 3, flag=NN, origin="1.5"), 2, ()),
        (column(1, "c", 8, flag=NN, origin="-0.0"), 0, ()),
        (column(1, "c", 246, flag=NN, origin="0.000", flen=10, decimal=2), "0.00", ()),
        (column(1, "c", 246, origin="1e2", flen=10, decimal=2), "100.00", ()),
        (column(1, "c", 246, origin="1", flen=65, decimal=30), "1." + "0" * 30, ()),
        (column(1, "c", 16, flag=NN, flen=1, origin=""), 0, ()),
        (column(1, "c", 16, flag=NN), 0, ()),
        (column(1, "c", 13, flag=NN), 0, ()),
    ],
)
def test_a_missing_column_gets_origin_default_null_or_zero(
    info: ColumnInfo, value: object, b64: tuple[str, ...]
) -> None:
    codec = TableCodec(int_key_table(info))
    change = one(codec, mutation((ID_ONLY.encode_insert({"id": 1}, None),)))
    assert change.after == {"id": 1, "c": value}
    assert change.b64 == b64


@pytest.mark.parametrize("tp", [1, 4, 5, 7, 8, 10, 11, 13, 16, 245, 246, 247, 248])
@pytest.mark.parametrize("origin", ["x", "", "1.5x", "a,b", "99999999999999999999", True])
def test_a_default_that_its_column_can_t_hold_is_a_corrupt_row(tp: int, origin: str | bool) -> None:
    elems = ("p", "q") if tp in (247, 248) else None
    codec = TableCodec(int_key_table(column(1, "c", tp, origin=origin, elems=elems)))
    try:
        change = one(codec, mutation((ID_ONLY.encode_insert({"id": 1}, None),)))
    except RowCorrupt:
        return
    assert change.after is not None
    assert change.after["c"] is not None


def test_a_column_on_its_way_out_is_left_out_of_its_own_schema() -> None:
    codec = TableCodec(int_key_table(column(1, "gone", 3, default="3"), column(2, "n", 3)))
    image = ID_ONLY.encode_delete({"id": 1}, None)
    made = mutation((ID_ONLY.encode_insert({"id": 1}, None),), (image * 2,), (image,))
    insert, update, delete = codec.decode(made, own_schema=True)
    assert insert.after == {"id": 1, "n": None}, "a default NULL needs no place in an insert"
    assert (update.before, update.after, delete.before) == ({"id": 1}, {"id": 1}, {"id": 1})
    lagging = codec.decode(made)
    assert lagging[1].before == lagging[1].after == {"id": 1, "gone": None, "n": None}


def test_columns_half_added_or_hidden_are_not_shown() -> None:
    full = TableCodec(int_key_table(column(1, "new", 3), column(2, "_v", 3), column(3, "v", 3)))
    row = {"id": 1, "new": 2, "_v": 3, "v": 4}
    codec = TableCodec(
        int_key_table(
            column(1, "new", 3, state=3),
            column(2, "_v", 3, hidden=True, generated="lower(`v`)"),
            column(3, "v", 3),
        )
    )
    made = mutation(
        (full.encode_insert(row, None),),
        (full.encode_update(row, row, None),),
        (full.encode_delete(row, None),),
    )
    insert, update, delete = codec.decode(made)
    assert insert.after == update.before == update.after == delete.before == {"id": 1, "v": 4}


def test_virtual_columns_are_shown_where_they_travel_stored_ones_always() -> None:
    codec = TableCodec(
        int_key_table(
            column(1, "v", 3, generated="`id` + 1"),
            column(2, "s", 3, generated="`id` + 2", stored=True),
        )
    )
    row = {"id": 1, "v": 2, "s": 3}
    made = mutation(
        (codec.encode_insert(row, None),),
        (codec.encode_update(row, row, None),),
        (codec.encode_delete(row, None),),
    )
    insert, update, delete = codec.decode(made)
    assert insert.after == update.after == {"id": 1, "s": 3}
    assert delete.before == row


def test_the_sequence_interleaves_the_lists() -> None:
    codec = TableCodec(int_key_table(column(1, "n", 3)))
    made = mutation(
        (
            codec.encode_insert({"id": 1, "n": 1}, None),
            codec.encode_insert({"id": 1, "n": 3}, None),
        ),
        (codec.encode_update({"id": 1, "n": 1}, {"id": 1, "n": 2}, None),),
        (codec.encode_delete({"id": 1, "n": 2}, None),),
    )
    del made.sequence[:]
    made.sequence.extend([0, 1, 4, 0])  # type: ignore[list-item]
    assert [change.op for change in codec.decode(made)] == ["c", "u", "d", "c"]


def test_counts_that_do_not_add_up_are_corrupt() -> None:
    row = ID_ONLY.encode_insert({"id": 1}, None)
    cases = [
        (TableMutation(table_id=7, inserted_rows=[row]), "inserted_rows"),
        (TableMutation(table_id=7, sequence=[4]), "deleted_rows"),  # type: ignore[list-item]
        (TableMutation(table_id=7, sequence=[2]), "sequence"),  # type: ignore[list-item]
    ]
    for made, name in cases:
        with pytest.raises(RowCorrupt) as caught:
            ID_ONLY.decode(made)
        assert (caught.value.list_name, caught.value.index) == (name, -1)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("", "ends in the middle"),
        ("0a02", "integer handle"),
        ("0802", "ends in the middle"),
        ("0802080402", "ends in the middle"),
        ("08020804020a61", "longer than the row"),
        ("080208040906", "flag 9"),
        ("0802080b0b", "unknown datum flag 11"),
        ("080208040805", "flag 8"),
    ],
)
def test_reasons_name_what_is_wrong(row: str, reason: str) -> None:
    codec = TableCodec(int_key_table(column(1, "s", 15, charset="utf8mb4")))
    with pytest.raises(RowCorrupt, match=reason) as caught:
        codec.decode(mutation((bytes.fromhex(row),)))
    assert caught.value.list_name == "inserted_rows"


def test_a_type_nobody_knows_is_corrupt_not_a_guess() -> None:
    known = TableCodec(int_key_table(column(1, "v", 15)))
    codec = TableCodec(int_key_table(column(1, "v", 225)))
    made = mutation((known.encode_insert({"id": 1, "v": "YQ=="}, None),))
    with pytest.raises(RowCorrupt, match="type 225"):
        codec.decode(made)
    with pytest.raises(BadValue):
        codec.encode_insert({"id": 1, "v": 1}, None)


def test_an_update_needs_two_images_of_the_same_columns() -> None:
    codec = TableCodec(int_key_table(column(1, "n", 3)))
    one_image = codec.encode_delete({"id": 1, "n": 1}, None)
    with pytest.raises(RowCorrupt, match="one image"):
        codec.decode(mutation(updates=(one_image,)))
    with pytest.raises(RowCorrupt, match="different columns"):
        codec.decode(mutation(updates=(one_image + ID_ONLY.encode_delete({"id": 1}, None),)))


def test_key_columns() -> None:
    a, b = column(0, "a", 3, flag=NN), column(1, "b", 3, flag=NN)
    nullable = column(2, "c", 3)
    virtual = column(3, "v", 3, flag=NN, generated="1")
    table = hidden_handle_table(a, b, nullable, virtual)

    def keys(*indexes: object) -> tuple[str, ...]:
        return TableCodec(
            type(table)(table.id, table.name, cols=table.cols, index_info=indexes)  # type: ignore[arg-type]
        ).key_columns

    assert keys() == ()
    assert keys(index("u", (2, -1))) == (), "a key with NULLs identifies nothing"
    assert keys(index("u", (3, -1))) == (), "inserts don't carry virtual columns"
    assert keys(index("u", (0, -1)), index("w", (1, -1))) == ("a",)
    assert keys(index("u", (0, -1)), index("PRIMARY", (1, -1), (0, -1), primary=True)) == ("b", "a")
    assert TableCodec(int_key_table()).key_columns == ("id",)


@pytest.mark.parametrize(
    ("tp", "value"), [(3, 2**63), (3, "x"), (12, "soon"), (15, 5), (247, "no"), (246, "1.234")]
)
def test_values_that_do_not_fit_are_refused(tp: int, value: object) -> None:
    info = column(1, "c", tp, charset="utf8mb4", elems=("a",), flen=4, decimal=2)
    with pytest.raises(BadValue, match="column c"):
        TableCodec(int_key_table(info)).encode_insert({"id": 1, "c": value}, None)  # type: ignore[dict-item]


@pytest.mark.parametrize("tp", [7, 12, 11, 247, 248])
def test_a_codec_goes_with_its_table(tp: int) -> None:
    """Each DDL makes new ones."""
    with left_in_cycles() as left:
        TableCodec(int_key_table(column(1, "c", tp, elems=("p", "q"))))
    assert left["Column"] == 0, left
