"""Rows in pb_binlog files are, by their table's structure, those that the stream told."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.backfill import pb_logs
from tidelog.changes import Event, RowMessage
from tidelog.errors import Corrupt
from tidelog.rows.column import shortest_float32
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.view import Span, View

ELEMS = ("a", "B", "汉", "with space")
_json = st.recursive(
    st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
TYPES: dict[str, tuple[ColumnStructure, st.SearchStrategy[Any]]] = {
    name: (msgspec.structs.replace(column, name=name), values)
    for name, column, values in (
        ("i", ColumnStructure("", "bigint", "bigint"), st.integers(-(2**63), 2**63 - 1)),
        (
            "u",
            ColumnStructure("", "bigint unsigned", "bigint", unsigned=True),
            st.integers(0, 2**64 - 1),
        ),
        ("y", ColumnStructure("", "year", "year"), st.integers(1901, 2155)),
        ("bit", ColumnStructure("", "bit(64)", "bit", 64), st.integers(0, 2**64 - 1)),
        (
            "f",
            ColumnStructure("", "float", "float"),
            st.floats(width=32, allow_nan=False, allow_infinity=False).map(shortest_float32),
        ),
        (
            "d",
            ColumnStructure("", "double", "double"),
            st.floats(allow_nan=False, allow_infinity=False),
        ),
        ("dec", ColumnStructure("", "decimal(5,2)", "decimal"), st.sampled_from(("1.50", "-0.01"))),
        ("t", ColumnStructure("", "varchar(9)", "varchar"), st.text(max_size=9)),
        (
            "bin",
            ColumnStructure("", "varbinary(9)", "varbinary", binary=True),
            st.binary(max_size=9).map(lambda raw: b64encode(raw).decode()),
        ),
        ("e", ColumnStructure("", "enum", "enum", elems=ELEMS), st.sampled_from(("", *ELEMS))),
        (
            "s",
            ColumnStructure("", "set", "set", elems=ELEMS),
            st.sets(st.sampled_from(range(4))).map(
                lambda chosen: ",".join(ELEMS[at] for at in sorted(chosen))
            ),
        ),
        ("j", ColumnStructure("", "json", "json"), _json),
    )
}
TABLE = TableStructure(
    "t", 7, columns=tuple(column for column, _ in TYPES.values()), key_columns=("i",)
)


@st.composite
def events(draw: st.DrawFn) -> Event:
    op = draw(st.sampled_from("cud"))
    nullable = {
        name: values if name == "i" else st.none() | values for name, (_, values) in TYPES.items()
    }
    before = draw(st.fixed_dictionaries(nullable)) if op != "c" else None
    after = draw(st.fixed_dictionaries(nullable)) if op != "d" else None
    images = [one for one in (before, after) if one is not None]
    marks = ["bin"] if any(image["bin"] is not None for image in images) else []
    key = {"i": images[0]["i"]}
    return Event(op, 5, key, before, after, marks)


@given(st.lists(events(), min_size=1, max_size=4))
def test_what_was_written_is_read(
    tmp_path_factory: pytest.TempPathFactory, sent: list[Event]
) -> None:
    directory = tmp_path_factory.mktemp("pb")
    pb_logs.write(directory, pb_logs.rows(5, TABLE, *sent))
    assert told(directory) == RowMessage("shop", "t", 7, sent)


def told(directory: Path, structure: TableStructure = TABLE) -> RowMessage:
    (chunk,) = found(directory).chunks()
    view = View([Span(0, 9, named=[("shop", structure)])])
    (body,) = bodies(chunk, view)
    return msgspec.json.decode(body.body, type=RowMessage)


def test_json_null_is_not_sqls(tmp_path: Path) -> None:
    columns = (ColumnStructure("i", "int", "int"), ColumnStructure("j", "json", "json"))
    table = TableStructure("t", 1, columns=columns, key_columns=("i",))
    null = b64encode(b"null").decode()
    event = Event("c", 5, {"i": 1}, None, {"i": 1, "j": null}, ["j"])
    pb_logs.write(tmp_path, pb_logs.rows(5, table, event))
    assert told(tmp_path, table).events == [event]


def test_columns_that_the_structure_does_not_have_are_left_out(tmp_path: Path) -> None:
    pb_logs.write(tmp_path, pb_logs.inserted(5, "t", i=1, gone=2))
    (event,) = told(tmp_path).events
    assert (event.key, event.after) == ({"i": 1}, {"i": 1})


@pytest.mark.parametrize(("name", "number"), [("e", 5), ("s", 16)])
def test_elements_that_the_structure_does_not_have_are_damage(
    tmp_path: Path, name: str, number: int
) -> None:
    pb_logs.write(
        tmp_path,
        pb_logs.rows(5, pb_logs.ints("t", "i", name), Event("c", 5, after={"i": 1, name: number})),
    )
    with pytest.raises(Corrupt, match=rf"at offset 0: a row: column {name}"):
        told(tmp_path)


def test_a_row_without_its_key_is_damage(tmp_path: Path) -> None:
    pb_logs.write(tmp_path, pb_logs.inserted(5, "t", y=1999))
    with pytest.raises(Corrupt, match="lacks the key column i"):
        told(tmp_path)
