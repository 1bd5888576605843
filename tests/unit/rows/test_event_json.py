"""EventCodec writes what msgspec makes of an Event with the decoded images, byte for byte."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.rows.tables import (
    SAMPLES,
    clustered_table,
    column,
    hidden_handle_table,
    index,
    int_key_table,
    mutation,
)
from tests.unit.rows.test_round_trip import Row, rows_of_all_types
from tidelog.changes import Event
from tidelog.rows.errors import RowCorrupt
from tidelog.rows.event_json import EventCodec
from tidelog.rows.table_codec import RowChange, TableCodec
from tidelog.schema.model import FLAG_NOT_NULL, FLAG_PRIMARY, TableInfo
from tidelog_proto.binlog_pb2 import TableMutation

COMMIT_TS = 461_000_000_000_000_001
NO_KEY = hidden_handle_table(*(info for info, _ in SAMPLES))
ALL = int_key_table(*(info for info, _ in SAMPLES))
NOT_NULL_KEY = FLAG_NOT_NULL | FLAG_PRIMARY
TWO_KEYS = clustered_table(
    ((1, -1), (0, -1)),
    column(0, 'na"me', 3, flag=NOT_NULL_KEY),
    column(1, "späť", 15, flag=NOT_NULL_KEY, charset="utf8mb4"),
    column(2, "x", 3),
)


def by_msgspec(codec: TableCodec, made: TableMutation, own_schema: bool) -> list[bytes]:
    def event(change: RowChange) -> bytes:
        image = change.after if change.before is None else change.before
        assert image is not None
        key = {name: image[name] for name in codec.key_columns} if codec.key_columns else None
        return msgspec.json.encode(
            Event(change.op, COMMIT_TS, key, change.before, change.after, list(change.b64))
        )

    return [event(change) for change in codec.decode(made, own_schema)]


def check(info: TableInfo, made: TableMutation, own_schema: bool) -> list[bytes]:
    codec = TableCodec(info)
    events, created, updated = EventCodec(codec).events(made, own_schema, COMMIT_TS)
    assert events == by_msgspec(codec, made, own_schema)
    ops = [msgspec.json.decode(event, type=Event).op for event in events]
    assert (created, updated) == (ops.count("c"), ops.count("u"))
    return events


@given(rows_of_all_types(), rows_of_all_types(), st.booleans(), st.sampled_from([ALL, NO_KEY]))
def test_all_types_and_kinds(old: Row, new: Row, own_schema: bool, info: TableInfo) -> None:
    codec = TableCodec(info)
    made = mutation(
        (codec.encode_insert(old, 5), codec.encode_insert(new, 6)),
        (codec.encode_update(old, new, 5),),
        (codec.encode_delete(new, 5),),
    )
    assert len(check(info, made, own_schema)) == 4


@given(st.integers(-5, 5), st.text(max_size=40), st.none() | st.integers(0, 9))
def test_keys_of_several_columns_and_names_that_need_an_escape(
    number: int, text: str, value: int | None
) -> None:
    codec = TableCodec(TWO_KEYS)
    row: Row = {'na"me': number, "späť": text, "x": value}
    made = mutation((codec.encode_insert(row, None),), (codec.encode_update(row, row, None),))
    for event in check(TWO_KEYS, made, False):
        assert msgspec.json.decode(event)["key"] == {"späť": text, 'na"me': number}


def test_columns_that_a_row_lacks() -> None:
    info = int_key_table(column(1, "gone", 3, default="3"), column(2, "n", 3))
    codec = TableCodec(int_key_table())
    image = codec.encode_delete({"id": 1}, None)
    made = mutation((codec.encode_insert({"id": 1}, None),), (image * 2,), (image,))
    for own_schema in (False, True):
        check(info, made, own_schema)


def test_a_row_without_its_key_is_corrupt() -> None:
    key = index("u", (1, -1))
    info = hidden_handle_table(column(0, "a", 3), column(1, "k", 3, flag=FLAG_NOT_NULL))
    keyed = msgspec.structs.replace(info, index_info=(key,))
    made = mutation(
        deletes=(TableCodec(hidden_handle_table(column(0, "a", 3))).encode_delete({"a": 1}, 1),)
    )
    with pytest.raises(RowCorrupt, match="lacks the key column 'k'"):
        EventCodec(TableCodec(keyed)).events(made, True, COMMIT_TS)


@given(st.binary(max_size=200), st.sampled_from(["inserts", "updates", "deletes"]), st.booleans())
@settings(max_examples=300)
def test_any_bytes_give_the_same_events_or_the_same_error(
    raw: bytes, which: str, own_schema: bool
) -> None:
    made = mutation(**{which: (raw,)})

    def outcome(write: Callable[[TableInfo], list[bytes]], info: TableInfo) -> list[bytes] | str:
        try:
            return write(info)
        except KeyError as error:
            return f"table 7, sequence[-1]: a row lacks the key column {error}"
        except RowCorrupt as error:
            return error.message

    for info in (ALL, NO_KEY):
        expected = outcome(lambda at: by_msgspec(TableCodec(at), made, own_schema), info)
        assert expected == outcome(
            lambda at: EventCodec(TableCodec(at)).events(made, own_schema, COMMIT_TS)[0], info
        )
